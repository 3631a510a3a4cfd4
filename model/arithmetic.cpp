#include "model/arithmetic.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "kernels/cpu/blas.hpp"
#include "kernels/devices.hpp"

namespace troupe::model {

const std::vector<setting>& arithmetic_here() {
  static const std::vector<setting> here = {{"instruction set", kernels::instruction_sets().front()},
                                            {"BLAS kernels", kernels::blas_kernels()}};
  return here;
}

std::optional<std::string> other_arithmetic(std::span<const setting> saved, std::span<const setting> here) {
  std::vector<std::string> differences;
  for (const auto& [name, before] : saved) {
    const std::string* now = value_of(here, name);
    if (now == nullptr || *now != before)
      differences.push_back(fmt::format("{} {} here and {} there", printable(name),
                                        now == nullptr ? "unknown" : printable(*now), printable(before)));
  }
  if (differences.empty()) return std::nullopt;
  return fmt::format(
      "the processor computes in another way than that of the checkpoint's run ({}): the weights will differ in their "
      "last bits from those of an unbroken run; for the same bits, resume on a machine of the same kind",
      fmt::join(differences, ", "));
}

}  // namespace troupe::model
