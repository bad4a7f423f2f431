"""Files: read with checks, written whole or not at all; results as JSON."""

from hardpan.files.reading import (
    DAMAGED,
    GZIP_GROWTH,
    LARGEST_JSON,
    LONGEST_LINE,
    TAR_ENDINGS,
    check_reading_memory,
    existing_file,
    file_hash,
    fill,
    folder_entries,
    is_gzip,
    npz_header,
    parse_json,
    read_arrays,
    read_json,
    read_json_lines,
    read_npy,
    read_npz,
    read_npz_array,
    read_tar,
    read_text,
    refusing_damaged,
    stem_of,
    suffix_of,
)
from hardpan.files.records import (
    INLINE_NUMBERS,
    KINDS,
    TRANSIENT,
    array_hash,
    from_json,
    json_text,
    load,
    record,
    save,
    to_json,
)
from hardpan.files.writing import (
    MARKED,
    Content,
    lock,
    locked,
    missing_parents,
    refuse_foreign_files,
    remove_if_empty,
    replacing,
    scratch_array,
    sync_folder,
    unlock,
    write_bytes,
    write_text,
    write_together,
)
from hardpan.lazy import exports

exports(__name__)
