// The page's answers: its own files, a run's data as JSON, and `/metrics` for Prometheus.

#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "page/http_server.hpp"
#include "page/metrics.hpp"
#include "page/source.hpp"
#include "trace/analysis/causality.hpp"
#include "trace/analysis/steps.hpp"

namespace troupe::page {

/// Answers requests. Caches answers that change only with the recording. Thread: one at a time.
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
  /// Returns the window of the requested step (and trainer, if one is named), or null.
  const analysis::step_window* find_window(const http_request& request);
  /// Returns what `troupe trace blocked` prints, as JSON, with the message's `id` for each wait, and: `stuck_ns`: how
  /// long the run has been blocked; `moving`: the run is under way and makes progress.
  boost::json::object verdict();

  std::unique_ptr<source> source_;
  reading now_;
  std::shared_ptr<const trace::recording> before_;  ///< the previous reading; null: there was none
  totals totals_;
  bool scraped_ = false;  ///< the totals are computed only if `/metrics` is used
  // Computed from the recording at the first request.
  std::unique_ptr<analysis::causality> causes_;
  std::optional<analysis::step_windows> windows_;
  std::map<std::string, http_response> kept_;
  http_response blocked_;
  std::uint64_t blocked_of_ = 0;  ///< generation
  bool blocked_live_ = false;
  std::chrono::steady_clock::time_point blocked_next_{};
};

}  // namespace troupe::page
