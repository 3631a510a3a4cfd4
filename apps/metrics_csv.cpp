// --metrics-csv: one line an epoch.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "apps/epoch_log.hpp"
#include "base/input_files.hpp"
#include "base/number.hpp"
#include "base/result.hpp"
#include "base/text.hpp"

namespace troupe::apps {
namespace {

constexpr std::string_view usual_columns =
    "epoch,step,steps,samples,seconds,samples_per_s,loss,auc,accuracy,log_loss,calibration,test_loss,rmse";

/// The first line of a file whose last columns are metrics that the program has added.
std::string header_of(const nn::own_metrics& own) {
  std::string header(usual_columns);
  for (const auto& one : own) header += "," + one->name;
  return header + "\n";
}

/// Formats a number with all digits; empty for null.
std::string cell(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : std::string();
}

class metrics_csv : public epoch_log {
 public:
  metrics_csv(std::string option, descriptor file, std::string beginning, nn::own_metrics own)
      : epoch_log(std::move(option), std::move(file), std::move(beginning)), own_(std::move(own)) {}

 private:
  std::string record(const actors::epoch_summary& epoch) const override {
    std::string line =
        fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}", epoch.epoch, epoch.step, epoch.steps, epoch.samples,
                    cell(epoch.seconds), cell(samples_per_s(epoch)), cell(epoch.figures.loss), cell(epoch.figures.auc),
                    cell(epoch.figures.accuracy), cell(epoch.figures.log_loss), cell(epoch.figures.calibration),
                    cell(epoch.figures.test_loss), cell(epoch.figures.rmse));
    for (const auto& one : own_) line += "," + cell(epoch.figures.own.value_of(one->name));
    return line + "\n";
  }

  nn::own_metrics own_;
};

/// Returns the content of a regular file; empty for any other file.
result<std::string> content_of(const descriptor& file) {
  std::string content;
  struct stat status {};
  if (::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) return content;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = ::read(file.number(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return bad_input(std::strerror(errno));
    if (got == 0) return content;
    content.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

/// Returns how many bytes of an earlier run's file are kept: whole lines of steps up to `kept_to`.
result<std::size_t> kept_bytes(std::string_view content, std::uint64_t kept_to, std::string_view header) {
  if (!content.starts_with(header))
    return bad_input("is not a file of metrics that a resumed run could continue; use another name");
  const auto cells_of_line = static_cast<std::size_t>(std::ranges::count(header, ',') + 1);
  std::size_t kept = header.size();
  for (std::size_t end = 0; (end = content.find('\n', kept)) != content.npos; kept = end + 1) {
    const auto cells = split(content.substr(kept, end - kept), ',');
    const auto step = cells.size() == cells_of_line ? parse_number<std::uint64_t>(cells[1]) : std::nullopt;
    if (!step)
      return bad_input(
          "the line at byte {} is not a line of metrics that a resumed run could continue from; use another name",
          kept);
    if (*step > kept_to) break;
  }
  return kept;
}

/// Truncates the file to the kept lines and seeks to its end. Returns the header if the file lacks it.
result<std::string> continue_file(const descriptor& file, std::uint64_t kept_to, const std::string& header) {
  TROUPE_TRY(content, content_of(file));
  if (content.empty()) return header;
  TROUPE_TRY(kept, kept_bytes(content, kept_to, header));
  const auto end = static_cast<off_t>(kept);
  if (::ftruncate(file.number(), end) != 0 || ::lseek(file.number(), end, SEEK_SET) != end)
    return bad_input(std::strerror(errno));
  return std::string();
}

}  // namespace

result<std::unique_ptr<epoch_log>> open_metrics_csv(const std::string& path, std::optional<std::uint64_t> kept_to,
                                                    const nn::own_metrics& own) {
  const std::string option = "--metrics-csv " + printable_path(path);
  const auto refuse = [&](const fault& why) { return bad_input("{}: {}", option, why.message); };
  if (auto allowed = check_output(path); !allowed) return refuse(allowed.error());
  auto file = descriptor::open(path, kept_to ? O_RDWR | O_CREAT : O_WRONLY | O_CREAT | O_TRUNC);
  if (!file) return refuse(file.error());
  auto beginning = kept_to ? continue_file(*file, *kept_to, header_of(own)) : header_of(own);
  if (!beginning) return refuse(beginning.error());
  return std::make_unique<metrics_csv>(option, std::move(*file), std::move(*beginning), own);
}

}  // namespace troupe::apps
