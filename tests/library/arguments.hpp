// A program's arguments, for tests that make clusters.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

class arguments {
 public:
  arguments(std::initializer_list<std::string> given) : arguments(std::vector<std::string>(given)) {}
  explicit arguments(std::vector<std::string> given) : text_(std::move(given)) {
    text_.insert(text_.begin(), "program");
    for (std::string& word : text_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }

  int count() const { return static_cast<int>(text_.size()); }
  char** values() { return pointers_.data(); }

 private:
  std::vector<std::string> text_;
  std::vector<char*> pointers_;
};

}  // namespace troupe::test
