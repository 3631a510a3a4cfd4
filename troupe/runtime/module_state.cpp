#include "troupe/runtime/module_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "troupe/error.hpp"

namespace troupe::runtime {

void append_state(named_tensors& to, const std::vector<nn::parameter>& tensors, std::span<const float> flat) {
  for (const nn::parameter& one : tensors) {
    to.emplace_back(one.name, tensor::of(one.shape, flat.first(one.shape.count())));
    flat = flat.subspan(one.shape.count());
  }
}

namespace {

/// Reads tensors, and notes what is wrong with them.
class state_reader {
 public:
  explicit state_reader(const named_tensors& from) {
    for (const auto& [name, numbers] : from)
      if (!by_name_.emplace(name, &numbers).second) wrong_.push_back(fmt::format("'{}' is there twice", name));
  }

  std::vector<float> read(const std::vector<nn::parameter>& tensors) {
    std::vector<float> flat;
    flat.reserve(nn::count_of(tensors));
    for (const nn::parameter& one : tensors) {
      const auto found = by_name_.find(one.name);
      if (found == by_name_.end()) {
        wrong_.push_back(fmt::format("'{}' is missing", one.name));
        continue;
      }
      append(flat, one, *found->second);
      by_name_.erase(found);
    }
    return flat;
  }

  /// After all reads: throws if anything was wrong or is left.
  void check(const nn::module& of) {
    for (const auto& [name, numbers] : by_name_) wrong_.push_back(fmt::format("'{}' is unexpected", name));
    if (!wrong_.empty())
      throw error(error_kind::input, fmt::format("{}: load_state_dict: {}", of.type(), fmt::join(wrong_, "; ")));
  }

 private:
  void append(std::vector<float>& flat, const nn::parameter& wanted, const tensor& given) {
    const auto refuse = [&](const auto& is, const auto& should) {
      wrong_.push_back(fmt::format("'{}' is {}, the module's is {}", wanted.name, is, should));
    };
    if (!(given.shape() == wanted.shape)) return refuse(to_string(given.shape()), to_string(wanted.shape));
    if (given.type() == dtype::f32)
      std::ranges::copy(given.as<float>(), std::back_inserter(flat));
    else if (given.type() == dtype::f64)
      std::ranges::transform(given.as<double>(), std::back_inserter(flat),
                             [](double x) { return static_cast<float>(x); });
    else
      refuse(to_string(given.type()), to_string(dtype::f32));
  }

  std::map<std::string, const tensor*> by_name_;
  std::vector<std::string> wrong_;
};

}  // namespace

flat_state read_state(const nn::module& of, const named_tensors& from) {
  state_reader reader(from);
  flat_state read;
  read.parameters = reader.read(of.parameters());
  read.buffers = reader.read(of.buffers());
  reader.check(of);
  return read;
}

}  // namespace troupe::runtime
