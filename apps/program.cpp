#include "troupe/program.hpp"

#include <chrono>
#include <cstdlib>

#include "apps/subcommand.hpp"
#include "cluster/launch/console.hpp"

namespace troupe {

int program(int argc, char** argv) { return program({argv + (argc > 0 ? 1 : 0), argv + argc}); }

int program(const std::vector<std::string>& arguments) {
  const auto started = std::chrono::steady_clock::now();
  apps::prepare_streams();
  // On a CUDA device each table has its own stream; streams that share a hardware queue would wait for each other.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  return apps::run_command_line(arguments, started);
}

}  // namespace troupe
