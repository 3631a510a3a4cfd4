// Texts of exceptions, for users.

#pragma once

#include <exception>
#include <new>
#include <string>

namespace troupe {

/// Reports lack of host memory for a named object.
class no_memory final : public std::bad_alloc {
 public:
  explicit no_memory(const std::string& what_for) : text_("out of memory for " + what_for) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

/// Calls `run`. If memory runs out in it, throws `no_memory` with the text of `what`, such as `table 2 [1000, 16]`.
template <class What, class Function>
decltype(auto) with_memory_for(What what, Function run) {
  try {
    return run();
  } catch (const no_memory&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw no_memory(what());
  }
}

/// Returns the text of an exception, without names of C++ classes and source files.
std::string text_of(const std::exception& thrown);

}  // namespace troupe
