#include "troupe/runtime/module_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "model/checkpoint/manifest.hpp"
#include "troupe/error.hpp"

namespace troupe::runtime {

namespace {

void append(named_tensors& to, const std::vector<nn::parameter>& tensors, kernels::stream& on, const float* flat) {
  for (const nn::parameter& one : tensors) {
    tensor numbers(one.shape);
    on.download(flat, numbers.as<float>().data(), numbers.as<float>().size_bytes());
    to.emplace_back(one.name, std::move(numbers));
    flat += one.shape.count();
  }
  on.synchronize();
}

/// Reads tensors, and collects their faults.
class state_reader {
 public:
  explicit state_reader(const named_tensors& from) {
    for (const auto& [name, numbers] : from)
      if (!by_name_.emplace(name, &numbers).second) wrong_.push_back(fmt::format("'{}' is there twice", name));
  }

  tensor read(const std::vector<nn::parameter>& tensors) {
    tensor flat{shape(nn::count_of(tensors))};
    auto left = flat.as<float>();
    for (const nn::parameter& one : tensors) {
      const auto to = left.first(one.shape.count());
      left = left.subspan(to.size());
      const auto found = by_name_.find(one.name);
      if (found == by_name_.end()) {
        wrong_.push_back(fmt::format("'{}' is missing", one.name));
        continue;
      }
      read(one, *found->second, to);
      by_name_.erase(found);
    }
    return flat;
  }

  /// Throws after all reads if there was a fault or a tensor is left.
  void check(const nn::module& of) {
    for (const auto& [name, numbers] : by_name_) wrong_.push_back(fmt::format("'{}' is unexpected", name));
    if (!wrong_.empty())
      throw error(error_kind::input, fmt::format("{}: load_state_dict: {}", of.type(), fmt::join(wrong_, "; ")));
  }

 private:
  void read(const nn::parameter& wanted, const tensor& given, std::span<float> to) {
    const auto refuse = [&](const auto& is, const auto& should) {
      wrong_.push_back(fmt::format("'{}' is {}, the module's is {}", wanted.name, is, should));
    };
    if (!(given.shape() == wanted.shape)) return refuse(to_string(given.shape()), to_string(wanted.shape));
    if (given.type() == dtype::f32)
      std::ranges::copy(given.as<float>(), to.begin());
    else if (given.type() == dtype::f64)
      std::ranges::transform(given.as<double>(), to.begin(), [](double x) { return static_cast<float>(x); });
    else
      refuse(name_of(given.type()), name_of(dtype::f32));
  }

  std::map<std::string, const tensor*> by_name_;
  std::vector<std::string> wrong_;
};

}  // namespace

void check_names(const nn::module& of, const std::string& prefix) {
  std::set<std::string> seen;
  const auto check = [&](const std::vector<nn::parameter>& all, const char* what) {
    for (const nn::parameter& one : all) {
      const auto refuse = [&](const std::string& why) {
        throw error(error_kind::input, fmt::format("{}: the {} '{}' {}", of.type(), what, printable(one.name), why));
      };
      if (one.name.empty())
        throw error(error_kind::input,
                    fmt::format("{}: a {} has no name; give it one, as PyTorch would: weight", of.type(), what));
      if (!model::is_plain_name(fmt::format("{}.{}.state.0", prefix, one.name)))
        refuse(
            fmt::format("has a name that checkpoints cannot keep: it must be letters, digits, dots, dashes and "
                        "underscores, at most {} with {} before it",
                        model::plain_name_max - std::string_view(".state.0").size(), printable(prefix + ".")));
      if (model::is_optimizer_state(one.name))
        refuse("has a name as of an optimizer's state; it must not end with state. and a number");
      if (!seen.insert(one.name).second) refuse("has a name that is there twice; each must have its own");
    }
  };
  check(of.parameters(), "parameter");
  check(of.buffers(), "buffer");
}

named_tensors state_of(const nn::module& of, const actors::trained_parameters& numbers) {
  named_tensors all;
  append(all, of.parameters(), numbers.compute(), numbers.weights_data());
  append(all, of.buffers(), numbers.compute(), numbers.buffers_data());
  return all;
}

flat_state read_state(const nn::module& of, const named_tensors& from) {
  state_reader reader(from);
  flat_state read;
  read.parameters = reader.read(of.parameters());
  read.buffers = reader.read(of.buffers());
  reader.check(of);
  return read;
}

}  // namespace troupe::runtime
