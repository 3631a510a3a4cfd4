// The locations of a file's rows as one process sends them to others, so that these can begin without reading the whole
// file.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/files/file_rows.hpp"

namespace troupe::model {

/// Returns the file's length and digest, and the locations of its rows: 40 bytes for about 240 KB of text.
std::vector<std::uint64_t> row_index_of(const file_rows& found);

/// Returns the rows of `file` from an index that another process has made of its copy of the file, for the same format
/// and cut. Reads only the header; other differences are found when rows are read. Faults: the file has another length
/// or header; the index is damaged.
result<file_rows> rows_by_index(std::shared_ptr<const input_file> file, std::shared_ptr<const row_format> format,
                                row_cut cut, std::span<const std::uint64_t> index);

}  // namespace troupe::model
