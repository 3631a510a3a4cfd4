// What the page serves: its own files, a run's data as JSON, and `/metrics` for Prometheus.

#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "analysis/causality.hpp"
#include "analysis/steps.hpp"
#include "page/http_server.hpp"
#include "page/metrics.hpp"
#include "page/source.hpp"

namespace troupe::page {

/// Answers requests, for one thread. Answers that do not change until the recording does are made once.
class run_page {
 public:
  explicit run_page(std::unique_ptr<source> from);

  http_response answer(const http_request& request);

 private:
  http_response run();
  http_response topology(const http_request& request);
  http_response traffic(const http_request& request);
  http_response curves(const http_request& request);
  http_response steps(const http_request& request);
  http_response step(const http_request& request);
  http_response paths(const http_request& request);
  http_response blocked(const http_request& request);
  http_response messages(const http_request& request);
  http_response message(const http_request& request);
  http_response exported(const http_request& request);

  http_response metrics();

  void take(reading next);
  const analysis::causality& causes();
  const analysis::step_windows& windows();
  /// The window of the step, and of the trainer if one is named, that is asked for; null if there is none.
  const analysis::step_window* find_window(const http_request& request);
  /// What `troupe trace blocked` says, as JSON, where each wait has its message's `id`, and: `stuck_ns`: for how long
  /// what blocks has blocked; `moving`: the run is under way, and that is not long.
  boost::json::object verdict();

  std::unique_ptr<source> source_;
  reading now_;
  totals totals_;
  bool scraped_ = false;  ///< only who reads sums has them made
  // Made of the recording when they are first asked for.
  std::unique_ptr<analysis::causality> causes_;
  std::optional<analysis::step_windows> windows_;
  std::map<std::string, http_response> kept_;
  http_response blocked_;
  std::uint64_t blocked_of_ = 0;  ///< generation
  bool blocked_live_ = false;
  std::chrono::steady_clock::time_point blocked_next_{};
};

}  // namespace troupe::page
