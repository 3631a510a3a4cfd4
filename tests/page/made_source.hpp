// A source that shows recordings given by the test.

#pragma once

#include <memory>
#include <utility>

#include "page/source.hpp"

namespace troupe::page {

class made_source : public source {
 public:
  explicit made_source(std::shared_ptr<reading> what) : what_(std::move(what)) {}
  reading latest() override { return *what_; }

  /// Returns a reading of `run` as a finished run.
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
