// The buffers of matrix products, with a library and a system that count: never more concurrent products than buffers,
// never a buffer without room.

#include "kernels/cpu/product_buffers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "kernels/cpu/blas.hpp"

namespace troupe::kernels::test::product_buffers_test {
namespace {

/// Imitates OpenBLAS: it hands out an unused buffer, or else a new one, which it requests from the system without end.
struct library {
  std::atomic<std::size_t> made = 0;
  std::atomic<std::size_t> used = 0;
  std::size_t fit = 0;  ///< buffers that fit
  std::size_t left_over = 0;

  static library& all() {
    static library one;
    return one;
  }
  static void* take(int) {
    library& me = all();
    const std::size_t now = ++me.used;
    EXPECT_LE(now, me.fit) << "OpenBLAS would ask for ever";
    me.made = std::max<std::size_t>(me.made, now);
    return &me;
  }
  static void give(void*) { --all().used; }
  static bool has_room(std::size_t bytes) {
    const std::size_t left = (all().fit - all().made) * product_buffers::bytes + all().left_over;
    return bytes <= left;
  }
};

class ProductBuffers : public testing::Test {
 protected:
  void fits(std::size_t buffers, std::size_t more_bytes) {
    library& its = library::all();
    its.made = 0;
    its.used = 0;
    its.fit = buffers;
    its.left_over = more_bytes;
  }

  /// A product with a buffer, as OpenBLAS computes it.
  static void multiply(product_buffers& all) {
    const product_buffers::use one(all);
    void* const buffer = library::take(0);
    std::this_thread::yield();
    library::give(buffer);
  }

  product_buffers buffers_{library::take, library::give, library::has_room};
};

TEST_F(ProductBuffers, ThatFindNoRoomRefuseTheProductAndAskForNone) {
  fits(0, product_buffers::bytes - 1);
  EXPECT_EQ(buffers_.reserve(4, 0), 0U);
  EXPECT_THROW(multiply(buffers_), no_product_memory);
  EXPECT_EQ(library::all().made, 0U);
}

TEST_F(ProductBuffers, LeaveTheRoomThatIsAskedFor) {
  fits(5, 100);
  EXPECT_EQ(buffers_.reserve(5, 2 * product_buffers::bytes), 3U);
  EXPECT_EQ(buffers_.reserve(2, 0), 3U);
  EXPECT_EQ(buffers_.reserve(9, 0), 5U);
}

TEST_F(ProductBuffers, AreWaitedForByProductsBeyondThem) {
  for (const std::size_t reserved : {0, 1, 2}) {
    fits(3, 0);
    product_buffers buffers(library::take, library::give, library::has_room);
    buffers.reserve(reserved, 0);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&buffers] {
        for (int products = 0; products < 200; ++products) multiply(buffers);
      });
    for (std::thread& one : threads) one.join();
    EXPECT_GE(library::all().made, 1U);
    EXPECT_EQ(library::all().used, 0U);
  }
}

TEST_F(ProductBuffers, OfOpenBlasAreThoseThatItsProductsUse) {
  EXPECT_GE(reserve_products(2, 0), 2U);
  EXPECT_GE(reserve_products(0, 0), 2U);
}

}  // namespace
}  // namespace troupe::kernels::test::product_buffers_test
