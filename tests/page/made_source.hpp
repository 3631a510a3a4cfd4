// A source that shows what a test gives it.

#pragma once

#include <memory>
#include <utility>

#include "page/source.hpp"

namespace troupe::page {

class made_source : public source {
 public:
  explicit made_source(std::shared_ptr<reading> what) : what_(std::move(what)) {}
  reading latest() override { return *what_; }

  /// A reading of `run` as one that is over.
  static std::shared_ptr<reading> over(trace::recording run) {
    auto what = std::make_shared<reading>();
    what->what = std::make_shared<const trace::recording>(std::move(run));
    what->generation = 1;
    return what;
  }

 private:
  std::shared_ptr<reading> what_;
};

}  // namespace troupe::page
