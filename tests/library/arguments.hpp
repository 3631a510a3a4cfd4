// A program's arguments, for tests that make clusters.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

class arguments {
 public:
  arguments(std::initializer_list<std::string> given) : arguments(std::vector<std::string>(given)) {}
  explicit arguments(std::vector<std::string> given) : words_(std::move(given)) {
    words_.insert(words_.begin(), "program");
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }

  int count() const { return static_cast<int>(words_.size()); }
  char** values() { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

}  // namespace troupe::test
