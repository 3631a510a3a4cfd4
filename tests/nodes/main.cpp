#include <gtest/gtest.h>

#include "cluster/nodes/caf_network.hpp"

int main(int argc, char** argv) {
  troupe::nodes::initialize_network_types();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
