import pytest

from verl_srpo.retrieval import LocalRetriever, Passage, Retriever


def test_title_is_the_first_line_without_its_quotes() -> None:
    passage = Passage.from_document({"id": 3, "contents": '"Ada "the" Ash"\nBorn in 1900.\nA chemist.', "more": 1}, 2.5)
    assert passage == Passage("3", 'Ada "the" Ash', "Born in 1900.\nA chemist.", 2.5)
    assert passage.contents == '"Ada "the" Ash"\nBorn in 1900.\nA chemist.'


@pytest.mark.parametrize("contents", ["Only one line", '"Only one line"'])
def test_a_single_line_is_a_title(contents: str) -> None:
    passage = Passage.from_document({"id": "0", "contents": contents})
    assert (passage.title, passage.text, passage.contents) == ("Only one line", "", '"Only one line"')


def test_a_document_without_contents_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r'needs "contents", this one has \[\'id\', \'text\'\]'):
        Passage.from_document({"id": "0", "text": "x"})


def test_local_retriever_has_the_interface(bm25) -> None:
    assert isinstance(LocalRetriever(bm25), Retriever)
