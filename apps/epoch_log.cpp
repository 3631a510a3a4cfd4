#include "apps/epoch_log.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <utility>

namespace troupe::apps {

result<void> epoch_log::add(const actors::epoch_summary& epoch) {
  if (failed_) return {};
  const int error = write_all(file_.number(), std::exchange(pending_, {}) + record(epoch));
  if (error == 0) return {};
  failed_ = true;
  return tl::unexpected<fault>(
      fault{fault_kind::run, fmt::format("{}: {}; training continues without it", option_, std::strerror(error))});
}

result<epoch_logs> open_epoch_logs(const std::optional<std::string>& metrics_csv,
                                   const std::optional<std::string>& tensorboard, std::optional<std::uint64_t> kept_to,
                                   const nn::own_metrics& own) {
  epoch_logs logs;
  if (tensorboard) {
    TROUPE_TRY(log, open_tensorboard(*tensorboard, kept_to));
    logs.push_back(std::move(log));
  }
  // The CSV file is opened last, because this truncates it.
  if (metrics_csv) {
    TROUPE_TRY(log, open_metrics_csv(*metrics_csv, kept_to, own));
    logs.push_back(std::move(log));
  }
  return logs;
}

double samples_per_s(const actors::epoch_summary& epoch) {
  return epoch.seconds > 0 ? static_cast<double>(epoch.samples) / epoch.seconds
                           : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace troupe::apps
