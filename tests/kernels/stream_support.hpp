// Typed test suites of streams: one runs on the processor; the other, whose name ends in Gpu, on a CUDA device.

#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/device.hpp"
#include "kernels/device_array.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::kernels::test {

struct on_processor {
  static device& open() { return host_device(); }
};

struct on_cuda {
  static device& open() { return cuda_backend().open(0); }
};

using each_device = testing::Types<on_processor, on_cuda>;

struct device_names {
  template <class Place>
  static std::string GetName(int) {
    return std::is_same_v<Place, on_cuda> ? "Gpu" : "processor";
  }
};

/// A device with a stream. Skips without a device, unless the environment names a module to test.
template <class Place>
class stream_test : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = &Place::open();
      stream_ = device_->make_stream();
    } catch (const device_error& error) {
      if (std::getenv("TROUPE_CUDA_MODULE")) FAIL() << error.what();
      GTEST_SKIP() << "skipped: no CUDA device (" << error.what() << ")";
    }
  }

  kernels::device& device() { return *device_; }
  stream& on() { return *stream_; }

  /// Copies `numbers` to the device, `before` numbers after the start of the memory, so that they are unaligned.
  template <class T>
  device_array<T> put(const std::vector<T>& numbers, std::size_t before = 0) {
    device_array<T> array;
    std::vector<T> all(before, T{});
    all.insert(all.end(), numbers.begin(), numbers.end());
    assign<T>(on(), all, array);
    return array;
  }

  template <class T>
  device_array<T> buffer(std::size_t count) {
    device_array<T> array;
    array.resize(on(), count);
    return array;
  }

  template <class T>
  std::vector<T> get(const T* from, std::size_t count) {
    std::vector<T> numbers(count);
    on().download(from, numbers.data(), count * sizeof(T));
    on().synchronize();
    return numbers;
  }

  template <class T>
  std::vector<T> get(const device_array<T>& array) {
    return get(array.data(), array.size());
  }

 private:
  kernels::device* device_ = nullptr;
  std::unique_ptr<stream> stream_;
};

}  // namespace troupe::kernels::test
