// Names that programs add, for use in job files.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace troupe::nn {

/// Throws `error` unless `name` consists of lower-case letters, digits and `separator`, beginning with a letter.
/// `function`: the one that adds it; `noun`: its kind; `owner`: its owner, or empty.
inline void check_added_name(const char* function, const char* noun, const std::string& name, char separator,
                             const std::string& owner = {}) {
  const auto fits = [=](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == static_cast<unsigned char>(separator);
  };
  const bool has_letter_first = !name.empty() && std::islower(static_cast<unsigned char>(name.front())) != 0;
  if (has_letter_first && std::ranges::all_of(name, fits)) return;
  throw error(error_kind::input,
              fmt::format("{}: the {} '{}'{} must be of lower-case letters, digits and '{}', a letter first", function,
                          noun, printable(name), owner.empty() ? "" : " of " + owner, separator));
}

/// A program's named additions, in the order of adding. Thread: any.
template <class T>
class added_names {
 public:
  /// `function`: the one that adds them; `thing`: their kind with its article. For errors.
  added_names(const char* function, const char* thing) : function_(function), thing_(thing) {}

  /// Throws `error` if the name is in use, or `is_usual`: a built-in name of jobs.
  void add(const std::string& name, bool is_usual, T what) {
    const std::scoped_lock lock(mutex_);
    if (is_usual || std::ranges::find(names_, name) != names_.end())
      throw error(error_kind::input, fmt::format("{}: there is {} '{}' already", function_, thing_, name));
    names_.push_back(name);
    all_.push_back(std::move(what));
  }
  std::vector<T> all() const {
    const std::scoped_lock lock(mutex_);
    return all_;
  }

 private:
  const char* function_;
  const char* thing_;
  mutable std::mutex mutex_;
  std::vector<std::string> names_;
  std::vector<T> all_;
};

}  // namespace troupe::nn
