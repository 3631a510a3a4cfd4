// The processor as a stream: every call has finished when it returns. The kernels are in elementwise.cpp, linear.cpp,
// ...

#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "kernels/device.hpp"

namespace troupe::kernels {

/// Has no state. Thread: any.
class cpu_stream final : public stream {
 public:
  kernels::device& device() const override { return host_device(); }
  void synchronize() override {}
  std::unique_ptr<event> record() override;
  void wait(const event& /*before*/) override {}
  void capture_or_launch(std::unique_ptr<graph>& /*captured*/, const std::function<void()>& enqueue) override {
    enqueue();
  }

  void side_by_side(std::size_t count, std::size_t operations, const std::function<void(std::size_t)>& part,
                    const std::function<void(std::size_t)>& done) override;

  void upload(const void* host, void* to, std::size_t bytes) override { copy(host, to, bytes); }
  void download(const void* from, void* host, std::size_t bytes) override { copy(from, host, bytes); }
  void copy(const void* from, void* to, std::size_t bytes) override;

#define TROUPE_KERNEL override
#include "kernels/stream_kernels.inc"
};

}  // namespace troupe::kernels
