"""Writes the model of a GGUF file as a Hugging Face folder, in single precision and with its chat template.

python examples/quickstart/convert_gguf.py FILE.gguf OUT
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar


def convert(file: Path, output: Path) -> str:
    """Returns one line about the model.

    Raises:
        ValueError: the file holds no chat template, without which there are no agents.
    """
    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    if not tokenizer.chat_template:
        raise ValueError(f"{file} holds no chat template; an instruction-tuned model is needed")
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # the ids are right in the file, their names in the tokenizer that transformers makes of it are not always
    config = model.config
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(config.eos_token_id)
    tokenizer.pad_token = (
        tokenizer.eos_token if config.pad_token_id is None else (tokenizer.convert_ids_to_tokens(config.pad_token_id))
    )
    tokenizer.clean_up_tokenization_spaces = False  # would change what is decoded
    model.save_pretrained(output)
    tokenizer.save_pretrained(output)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return f"{config.model_type}, {parameters:,} parameters; {len(tokenizer)} tokens, {tokenizer.eos_token} ends a turn"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    disable_progress_bar()
    print(f"  {convert(arguments.file, arguments.output)}")


if __name__ == "__main__":
    main()
