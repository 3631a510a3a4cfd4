// Options that a program has beside those of every cluster.

#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace troupe {

/// An option `--name`, which sets a variable. The variable's value before is the default. A bool is a switch;
/// a std::uint64_t takes no negative number.
class option {
 public:
  using target = std::variant<std::int64_t*, std::uint64_t*, double*, std::string*, bool*>;

  /// `name`: lower-case letters, digits and dashes. Requires: `sets` outlives the cluster's constructor.
  template <class Value>
  requires std::constructible_from<target, Value*> option(std::string name, Value& sets, std::string meaning)
      : name_(std::move(name)), sets_(&sets), meaning_(std::move(meaning)) {}

  const std::string& name() const { return name_; }
  const target& sets() const { return sets_; }
  const std::string& meaning() const { return meaning_; }

 private:
  std::string name_;
  target sets_;
  std::string meaning_;
};

}  // namespace troupe
