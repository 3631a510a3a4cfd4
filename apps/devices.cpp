// `troupe devices`: lists the processor and the CUDA devices of this machine.

#include "kernels/devices.hpp"

#include <fmt/format.h>

#include "apps/subcommand.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"

namespace troupe::apps {
namespace {

/// Returns a JSON array of values that are JSON text.
std::string joined_json(const std::vector<std::string>& values) { return fmt::format("[{}]", fmt::join(values, ",")); }

std::string compute_capability(const kernels::cuda_device& device) {
  return fmt::format("{}.{}", device.compute_major, device.compute_minor);
}

std::string devices_event(const kernels::device_report& report) {
  std::vector<std::string> backends = {json_string("cpu")};
  if (report.cuda_usable) backends.push_back(json_string("cuda"));

  std::vector<std::string> devices;
  for (const kernels::cuda_device& device : report.devices)
    devices.push_back(fmt::format(R"({{"number":{},"name":{},"memory_bytes":{},"compute_capability":{}}})",
                                  devices.size(), json_string(device.name), device.memory_bytes,
                                  json_string(compute_capability(device))));
  std::vector<std::string> sets;
  for (const std::string& set : report.instruction_sets) sets.push_back(json_string(set));

  json_line line("devices");
  line.add_json("backends", joined_json(backends));
  line.add_json("cuda", fmt::format(R"({{"built":{},"usable":{},"reason":{},"devices":{}}})", report.cuda_built,
                                    report.cuda_usable, json_string(report.reason), joined_json(devices)));
  line.add_json(
      "cpu", fmt::format(R"({{"name":{},"cores":{},"target":{},"instruction_sets":{}}})", json_string(report.cpu_name),
                         report.cpu_cores, json_string(report.cpu_target), joined_json(sets)));
  return line.take();
}

std::string devices_text(const kernels::device_report& report) {
  std::string text = fmt::format("cpu     {}, {} {}, {}\n", one_line(report.cpu_name), report.cpu_cores,
                                 report.cpu_cores == 1 ? "core" : "cores", report.cpu_target);
  if (!report.cuda_usable) text += fmt::format("cuda    not usable: {}\n", one_line(report.reason));
  for (std::size_t number = 0; number < report.devices.size(); ++number) {
    const kernels::cuda_device& device = report.devices[number];
    text += fmt::format("cuda {:<2} {}, {:.1f} GiB, compute capability {}\n", number, one_line(device.name),
                        static_cast<double>(device.memory_bytes) / (1024.0 * 1024 * 1024), compute_capability(device));
  }
  return text;
}

result<int> list_devices(const CLI::App&, const program_context& context) {
  const kernels::device_report report = kernels::find_devices();
  context.out.result(context.out.json() ? devices_event(report) : devices_text(report));
  return report.cuda_usable ? exit_done : exit_wrong_input;
}

}  // namespace

subcommand add_devices(CLI::App& program) {
  CLI::App* app = program.add_subcommand("devices", "show what this machine computes with");
  app->footer("The exit code is 0 where a CUDA device is usable, and 2 where none is.");
  add_switch(*app, "json", "the result as a JSON object on one line", "Output");
  return {app, "it takes options only", list_devices};
}

}  // namespace troupe::apps
