"""The file folder: whole files or none, each stored once, and no way out of it."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.errors import InputError, NotFound, StoreUnavailable
from lcm_plugin.files.store import FileFolder

DIGEST = hashlib.sha256(b"hello").hexdigest()
URI = f"{DIGEST[:2]}/{DIGEST}"


@pytest.fixture
def folder(tmp_path: Path) -> FileFolder:
    return FileFolder(tmp_path / "deep" / "files")


def test_nothing_is_created_before_the_first_put(folder: FileFolder) -> None:
    assert not folder.exists(URI)
    assert list(folder.uris()) == []
    assert folder.remove_leftovers() == 0
    assert not folder.root.parent.exists()


def test_bytes_come_back_by_their_digest(folder: FileFolder) -> None:
    assert folder.put(b"hello") == URI
    assert folder.get(URI) == b"hello"
    assert folder.verify(URI, DIGEST)
    assert not folder.verify(URI, "0" * 64)


def test_equal_bytes_are_stored_once_also_beside_a_name_with_a_suffix(folder: FileFolder) -> None:
    (folder.root / folder.put(b"hello")).rename(folder.root / f"{URI}.json")
    assert folder.put(b"hello") == folder.put(b"hello") == f"{URI}.json"
    assert list(folder.uris()) == [f"{URI}.json"]


@settings(max_examples=examples(30), deadline=None)
@given(data=st.binary(max_size=3_000))
def test_any_bytes_come_back(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = FileFolder(tmp_path_factory.mktemp("files"))
    uri = folder.put(data)
    assert folder.get(uri) == data
    assert [path for path in folder.root.rglob("*") if path.is_file()] == [folder.root / uri]


def test_files_and_folders_belong_to_their_owner_alone(folder: FileFolder) -> None:
    uri = folder.put(b"secret")
    path = folder.root / uri
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert folder.root.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "uri",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "file_../../etc/passwd",
        f"{DIGEST[:2]}/../{DIGEST}",
        f"{DIGEST[:2]}/{DIGEST}/..",
        f"{DIGEST[:2]}/{DIGEST}\n",
        f"{DIGEST[:2]}/{DIGEST}.JSON",
        f"zz/{DIGEST}",
        DIGEST,
        "",
        "ab/\x00",
    ],
)
def test_a_uri_that_could_lead_elsewhere_is_refused(folder: FileFolder, uri: str) -> None:
    folder.put(b"hello")
    for use in (folder.get, folder.exists, folder.delete):
        with pytest.raises(InputError, match="uri of a payload"):
            use(uri)


def test_a_link_in_the_place_of_a_file_is_refused(folder: FileFolder, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"hello")
    path = folder.root / folder.put(b"hello")
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(InputError, match="refused"):
        folder.get(URI)
    assert folder.put(b"hello") == URI
    assert not path.is_symlink()
    assert folder.get(URI) == b"hello"


def test_a_linked_shard_is_refused_for_reading_and_writing(folder: FileFolder, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / DIGEST).write_bytes(b"hello")
    folder.root.mkdir(parents=True)
    (folder.root / DIGEST[:2]).symlink_to(outside)
    with pytest.raises(InputError, match="refused"):
        folder.get(URI)
    with pytest.raises(StoreUnavailable, match="cannot store"):
        folder.put(b"hello")
    assert os.listdir(outside) == [DIGEST]


def test_a_pipe_in_the_place_of_a_file_neither_hangs_nor_reads(folder: FileFolder) -> None:
    path = folder.root / folder.put(b"hello")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="refused"):
        folder.get(URI)


def test_damaged_bytes_are_told_and_replaced_by_the_next_put(folder: FileFolder) -> None:
    uri = folder.put(b"hello")
    (folder.root / uri).write_bytes(b"jello")
    assert not folder.verify(uri, DIGEST)
    with pytest.raises(StoreUnavailable, match="damaged"):
        folder.get(uri)
    assert folder.get(folder.put(b"hello")) == b"hello"


def test_what_is_not_there_is_not_found(folder: FileFolder) -> None:
    folder.put(b"other")
    assert not folder.exists(URI)
    assert not folder.verify(URI, DIGEST)
    folder.delete(URI)
    with pytest.raises(NotFound, match="no payload"):
        folder.get(URI)


def test_a_deleted_payload_is_gone(folder: FileFolder) -> None:
    uri = folder.put(b"hello")
    folder.delete(uri)
    assert not folder.exists(uri)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="cannot store a payload in"):
        FileFolder(tmp_path / "file" / "files").put(b"hello")


def test_leftovers_of_a_killed_process_are_swept_and_never_listed(folder: FileFolder) -> None:
    uri = folder.put(b"hello")
    old, new = (folder.root / uri).parent / ".tmp-old", (folder.root / uri).parent / ".tmp-new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    assert list(folder.uris()) == [uri]
    assert folder.remove_leftovers() == 1
    assert (old.exists(), new.exists()) == (False, True)


def test_many_threads_may_put_the_same_bytes(folder: FileFolder) -> None:
    stored = []
    threads = [threading.Thread(target=lambda: stored.append(folder.put(b"x" * 100_000))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stored) == 8
    assert len(set(stored)) == 1
    assert list(folder.uris()) == [stored[0]]
