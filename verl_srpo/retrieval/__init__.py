"""Retrieval: BM25 and dense indexes, a server of POST /retrieve, its client, and retrieval inside the process.

Needs the `search` extra (`pip install "verl-srpo[search]"`); importing this package does not.
"""

from verl_srpo.retrieval.client import HTTPRetriever
from verl_srpo.retrieval.loading import load_index, open_retriever
from verl_srpo.retrieval.local import LocalRetriever
from verl_srpo.retrieval.passage import Passage, RetrievalError, Retriever

__all__ = [
    "HTTPRetriever",
    "LocalRetriever",
    "Passage",
    "RetrievalError",
    "Retriever",
    "load_index",
    "open_retriever",
]
