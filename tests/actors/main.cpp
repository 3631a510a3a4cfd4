#include <gtest/gtest.h>

#include "actors/caf_network.hpp"

int main(int argc, char** argv) {
  troupe::initialize_types(true);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
