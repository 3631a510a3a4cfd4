// Opens reference runs, for tests of their readers.

#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "model/datasets.hpp"
#include "model/replay.hpp"
#include "tests/model/tensor_file.hpp"

namespace troupe::model {

inline std::string shipped(const std::string& name) {
  return fmt::format("{}/{}.safetensors", TROUPE_REFERENCE_RUNS, name);
}

// The job that the run describes.
inline job job_of(const reference_run& run) {
  const auto made = parse_job(run.settings);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made.value_or(job{});
}

inline std::shared_ptr<const dataset> data_of(const std::string& path) {
  const auto run = open_reference_run(path);
  EXPECT_TRUE(run.has_value()) << (run ? "" : run.error().message);
  if (!run) return nullptr;
  const auto opened = open_dataset(job_of(*run));
  EXPECT_TRUE(opened.has_value()) << (opened ? "" : opened.error().message);
  return opened.value_or(nullptr);
}

// Why the run or its data cannot be opened, without the path.
inline std::string refusal(const tensor_file& content) {
  const temporary_file file(content.bytes());
  const auto run = open_reference_run(file.path());
  std::string message;
  if (!run) {
    message = run.error().message;
  } else {
    const auto opened = open_dataset(job_of(*run));
    if (!opened) message = opened.error().message;
  }
  EXPECT_EQ(message.find(file.path() + ": "), 0U) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message.substr(std::min(message.size(), file.path().size() + 2));
}

}  // namespace troupe::model
