// A program's own options, beside those of every cluster.

#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe {

/// An option `--name`, which sets a variable. The variable's initial value is the default. A bool is a switch; a
/// std::uint64_t does not accept negative numbers.
class option {
 public:
  using target = std::variant<std::int64_t*, std::uint64_t*, double*, std::string*, bool*>;

  /// `name`: lower-case letters, digits and dashes. Requires: `sets` outlives the cluster's constructor.
  template <class Value>
  requires std::constructible_from<target, Value*> option(std::string name, Value& sets, std::string meaning)
      : name_(std::move(name)), sets_(&sets), meaning_(std::move(meaning)) {}

  /// Returns a copy that accepts numbers from `least` to `most` only: others end the program with an error.
  option within(std::int64_t least, std::int64_t most) const {
    option limited = *this;
    limited.range_ = {least, most};
    return limited;
  }
  /// Returns a copy that accepts these texts only.
  option one_of(std::vector<std::string> texts) const {
    option limited = *this;
    limited.texts_ = std::move(texts);
    return limited;
  }

  /// Returns a copy whose value may differ in a resumed run: it does not affect what has been computed so far, such as
  /// the number of epochs, or the path of a file.
  option may_change_on_resume() const {
    option free = *this;
    free.may_change_ = true;
    return free;
  }

  const std::string& name() const { return name_; }
  const target& sets() const { return sets_; }
  const std::string& meaning() const { return meaning_; }
  /// Empty if it accepts any number.
  const std::optional<std::pair<std::int64_t, std::int64_t>>& range() const { return range_; }
  const std::vector<std::string>& texts() const { return texts_; }
  bool may_change() const { return may_change_; }

 private:
  std::string name_;
  target sets_;
  std::string meaning_;
  std::optional<std::pair<std::int64_t, std::int64_t>> range_;
  std::vector<std::string> texts_;
  bool may_change_ = false;
};

}  // namespace troupe
