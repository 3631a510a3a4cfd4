// The program `troupe`.

#include <chrono>

#include "apps/console.hpp"
#include "apps/subcommand.hpp"

int main(int argc, char** argv) {
  const auto started = std::chrono::steady_clock::now();
  troupe::prepare_streams();
  return troupe::run_command_line({argv + (argc > 0 ? 1 : 0), argv + argc}, started);
}
