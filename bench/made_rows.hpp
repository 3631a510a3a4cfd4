// Generates rows like those of public data sets. The same number of rows gives the same text.

#pragma once

#include <cstddef>
#include <string>

namespace troupe::bench {

/// Returns lines in Criteo's format, about 240 bytes each: a label, 13 integers and 26 categories, with skewed values.
std::string criteo_text(std::size_t rows);

/// Returns lines of a CSV file without a header: a label and `columns` categories, with skewed values.
std::string categories_text(std::size_t rows, std::size_t columns);

}  // namespace troupe::bench
