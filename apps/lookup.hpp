// The duration of a lookup in another process, beside the same bytes over a bare TCP socket: the figures of `troupe
// bench lookup`.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/links/credentials.hpp"
#include "cluster/links/endpoint.hpp"

namespace troupe::bench {

/// A size to measure: a request of `rows` indices of 8 bytes, an answer of [rows, dim] float32.
struct lookup_size {
  std::uint64_t rows = 0;
  std::uint64_t dim = 0;
  std::uint64_t repeats = 0;
};

/// Medians over the repeats; bandwidths count the answer's bytes over the whole round trip.
struct lookup_figures {
  lookup_size size;
  double us = 0;
  double gb_per_s = 0;
  double tcp_us = 0;
  double tcp_gb_per_s = 0;
};

/// The addresses of the serving process.
struct lookup_service {
  links::endpoint data;
  links::endpoint tcp;
};

/// Serves a table for each width in `dims`, and plain bytes over TCP. Passes the addresses to `on_ready`; ends when
/// `wait` returns.
result<void> serve_lookups(const links::credentials& mine, const std::vector<std::uint64_t>& dims,
                           const std::function<void(const lookup_service&)>& on_ready,
                           const std::function<void()>& wait);

/// Measures each of `sizes` against that process. Requires: `sizes` have the widths that it serves, in the same order.
result<std::vector<lookup_figures>> measure_lookups(const links::credentials& mine, const lookup_service& service,
                                                    const std::vector<lookup_size>& sizes);

}  // namespace troupe::bench
