#include <gtest/gtest.h>

#include "protocol/message_types.hpp"

int main(int argc, char** argv) {
  troupe::protocol::initialize_types();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
