import pytest

from tests.e2e.toy import make_data, make_model


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """Folder of the toy model and its data."""
    folder = tmp_path_factory.mktemp("toy")
    make_model(folder)
    make_data(folder)
    return folder
