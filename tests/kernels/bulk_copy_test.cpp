// Goal: large memory is copied to a device and back unchanged, in whole and odd numbers of pieces, and nothing outside
// it is written. Method: numbers that encode their index, with a margin on both sides.

#include "kernels/bulk_copy.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/child_process.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::bulk_copy_test {
namespace {

template <class Place>
class BulkCopy : public stream_test<Place> {};
TYPED_TEST_SUITE(BulkCopy, each_device, device_names);

TYPED_TEST(BulkCopy, BringsEveryByteAndNoOther) {
  constexpr std::size_t margin = 4;  // words
  constexpr std::size_t of_a_piece = bulk_piece_bytes / sizeof(std::uint64_t);
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, of_a_piece, 2 * of_a_piece + 3, 3 * of_a_piece}) {
    SCOPED_TRACE(count);
    std::vector<std::uint64_t> numbers(count);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = i * 0x9e3779b97f4a7c15U;
    const auto there = this->put(std::vector<std::uint64_t>(count + 2 * margin, 7));
    const auto bytes_of = [](auto* words) { return reinterpret_cast<std::byte*>(words); };
    upload_bulk(this->on(), bytes_of(numbers.data()), bytes_of(there.data() + margin), count * sizeof(std::uint64_t));
    const std::vector<std::uint64_t> all = this->get(there);
    for (std::size_t i = 0; i < margin; ++i) ASSERT_TRUE(all[i] == 7 && all[margin + count + i] == 7) << i;
    ASSERT_TRUE(std::equal(numbers.begin(), numbers.end(), all.begin() + margin));

    std::vector<std::uint64_t> back(count + 2 * margin, 9);
    download_bulk(this->on(), bytes_of(there.data() + margin), bytes_of(back.data() + margin),
                  count * sizeof(std::uint64_t));
    for (std::size_t i = 0; i < margin; ++i) ASSERT_TRUE(back[i] == 9 && back[margin + count + i] == 9) << i;
    ASSERT_TRUE(std::equal(numbers.begin(), numbers.end(), back.begin() + margin));
  }
}

class BulkCopyWithoutStagingGpu : public stream_test<on_cuda> {};

TEST_F(BulkCopyWithoutStagingGpu, GoesTheSlowWay) {
  for (const char* const call : {"1", "2", "3"}) {
    const std::string output =
        child_process("BulkCopy/Gpu.*",
                      std::string("TROUPE_EMULATED_CUDA=fail=cudaMallocHost@") + call + ":cudaErrorMemoryAllocation")
            .output();
    EXPECT_NE(output.find("[  PASSED  ] 1 test"), std::string::npos) << call << ": " << output;
  }
}

}  // namespace
}  // namespace troupe::kernels::test::bulk_copy_test
