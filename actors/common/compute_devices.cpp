#include "actors/common/compute_devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kernels/backend.hpp"
#include "kernels/devices.hpp"

namespace troupe::actors {

void compute_devices::follow(const device_advice& advice) {
  if (!trainers_by_default || advice.reason.empty()) return;
  if (!advice.on_devices) stay_on_processor();
  reason = advice.reason;
}

void compute_devices::stay_on_processor() {
  trainers = false;
  if (servers_by_default) servers = false;
  if (!servers) numbers.clear();
}

kernels::device& compute_devices::at(std::size_t place) const { return kernels::cuda_backend().open(numbers[place]); }

std::string places_of(const compute_devices& devices, std::span<const std::uint32_t> ranks) {
  std::vector<int> used;
  for (const std::uint32_t rank : ranks) {
    const int number = devices.numbers[rank % devices.numbers.size()];
    if (std::ranges::find(used, number) == used.end()) used.push_back(number);
  }
  return fmt::format(" on CUDA device{} {}{}", used.size() == 1 ? "" : "s", fmt::join(used, ", "),
                     ranks.size() > used.size() ? ", several on one" : "");
}

std::string describe(const compute_devices& devices, std::uint32_t trainers, std::uint32_t servers) {
  const auto on = [&](const char* what, std::uint32_t count) {
    std::vector<std::uint32_t> ranks(count);
    std::iota(ranks.begin(), ranks.end(), 0U);
    return fmt::format("{} {}{}{}", count, what, count == 1 ? "" : "s", places_of(devices, ranks));
  };
  std::vector<std::string> parts;
  if (devices.trainers) parts.push_back(on("trainer", trainers));
  if (devices.servers && servers > 0) parts.push_back(on("server", servers));
  const char* where = devices.trainers  ? ""
                      : devices.servers ? "trainers compute on the processor, "
                                        : "computing on the processor, ";
  if (!devices.reason.empty()) parts.push_back(fmt::format("{}as of --device auto: {}", where, devices.reason));
  return fmt::format("{}", fmt::join(parts, "; "));
}

result<compute_devices> choose_devices(const device_request& request) {
  using kind = device_request::kind;
  compute_devices chosen;
  const bool wants_cuda = request.trainers == kind::cuda || request.servers == kind::cuda;
  if (!wants_cuda && request.trainers == kind::cpu) {
    if (request.numbers.empty()) return chosen;
    return bad_input("--devices {}: nothing computes on CUDA devices; use --device cuda",
                     fmt::join(request.numbers, ","));
  }
  const kernels::device_report found = kernels::find_devices();
  if (!found.cuda_usable) {
    if (wants_cuda)
      return bad_input("--{0}device cuda: {1}; 'troupe devices' lists the devices, --{0}device cpu does without",
                       request.trainers == kind::cuda ? "" : "server-", found.reason);
    if (!request.numbers.empty()) return bad_input("--devices: {}; leave it out", found.reason);
    if (found.cuda_refused) chosen.reason = found.reason;
    return chosen;
  }
  chosen.numbers = request.numbers;
  if (chosen.numbers.empty())
    for (std::size_t number = 0; number < found.devices.size(); ++number)
      if (found.devices[number].compute_major >= kernels::compute_major_min)
        chosen.numbers.push_back(static_cast<int>(number));
  for (const int number : chosen.numbers) {
    if (static_cast<std::size_t>(number) >= found.devices.size())
      return bad_input("--devices {}: there is no such CUDA device; this machine has {} (0 to {})", number,
                       found.devices.size(), found.devices.size() - 1);
    const kernels::cuda_device& one = found.devices[static_cast<std::size_t>(number)];
    if (one.compute_major < kernels::compute_major_min)
      return bad_input("--devices {}: {} has compute capability {}.{}, {}.0 or more is needed", number, one.name,
                       one.compute_major, one.compute_minor, kernels::compute_major_min);
  }
  chosen.trainers_by_default = request.trainers == kind::automatic && request.numbers.empty();
  chosen.servers_by_default = chosen.trainers_by_default && request.servers == kind::automatic;
  chosen.trainers = request.trainers != kind::cpu;
  chosen.servers = request.servers == kind::automatic ? chosen.trainers : request.servers == kind::cuda;
  return chosen;
}

}  // namespace troupe::actors
