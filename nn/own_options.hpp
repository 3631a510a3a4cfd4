// The options of a program's additions to jobs or servers, for code that does not know their type.

#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "nn/option_fields.hpp"

namespace troupe::nn::detail {

/// Reads and writes options by index.
class added_options {
 public:
  virtual ~added_options() = default;

  /// An option, as in `option_field`.
  struct field {
    std::string name;
    bool is_required = false;
    std::string limit;
    bool is_default = true;
    option_value value;
  };
  virtual std::vector<field> fields() const = 0;
  /// Returns false if field `i` cannot have the value.
  virtual bool set(std::size_t i, const option_value& value) = 0;
  /// Returns whether field `i` is within its limit.
  virtual bool fits(std::size_t i) const = 0;
};

/// Returns whether two objects with options of one type have the same values.
inline bool have_same_values(const added_options& a, const added_options& b) {
  return std::ranges::equal(a.fields(), b.fields(), {}, &added_options::field::value, &added_options::field::value);
}

template <class Added>
struct options_of_added {
  struct type {};
};
template <class Added>
requires requires { typename Added::options; }
struct options_of_added<Added> {
  using type = typename Added::options;
};

/// The options of `Added`, if any, as `Described` describes them; `Base` derives from `added_options` and adds the rest
/// of the interface.
template <class Base, class Added, auto* Described = &fields_of<typename options_of_added<Added>::type>>
class options_with_fields : public Base {
 public:
  using options = typename options_of_added<Added>::type;
  using field = added_options::field;

  std::vector<field> fields() const override {
    std::vector<field> all;
    for (const auto& one : Described()) {
      option_value value = one.write(chosen_);
      const bool is_default = value == one.write(options());
      all.push_back({one.name, one.is_required, one.limit, is_default, std::move(value)});
    }
    return all;
  }
  bool set(std::size_t i, const option_value& value) override {
    const auto& one = Described().at(i);
    return one.read(value, chosen_) && one.fits(chosen_);
  }
  bool fits(std::size_t i) const override { return Described().at(i).fits(chosen_); }

 protected:
  options chosen_;
};

}  // namespace troupe::nn::detail
