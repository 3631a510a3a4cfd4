#include <gtest/gtest.h>

#include <caf/all.hpp>
#include <caf/io/middleman.hpp>

#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

int main(int argc, char** argv) {
  caf::io::middleman::init_global_meta_objects();
  caf::core::init_global_meta_objects();
  caf::init_global_meta_objects<caf::id_block::troupe>();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
