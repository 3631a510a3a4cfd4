// What a process that has found a file's rows tells others, so that these need not read the whole file to begin.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/files/file_rows.hpp"

namespace troupe::model {

/// Returns the file's length and digest, and where its rows are: 40 bytes for about 240 KB of text.
std::vector<std::uint64_t> row_index_of(const file_rows& found);

/// Returns the rows of `file` by the index that another process has made, for the same format and cut, of its copy of
/// the file. Reads the header only; what else differs is found when it is read. Faults: the file has another length or
/// header; the index is damaged.
result<file_rows> rows_by_index(std::shared_ptr<const input_file> file, std::shared_ptr<const row_format> format,
                                row_cut cut, std::span<const std::uint64_t> index);

}  // namespace troupe::model
