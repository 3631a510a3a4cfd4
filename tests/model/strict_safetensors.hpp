// The rules of the safetensors format, implemented independently: a file that passes is accepted by every reader.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::model {

/// A tensor as an independent reader sees it.
struct plain_tensor {
  std::string type;
  std::vector<std::uint64_t> shape;
  std::string bytes;
};

struct plain_file {
  std::map<std::string, plain_tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Parses the bytes of a whole file and expects every rule to hold.
inline plain_file read_strictly(const std::string& file) {
  static const std::map<std::string, std::uint64_t> sizes = {{"F64", 8},  {"I64", 8}, {"F32", 4}, {"I32", 4},
                                                             {"BF16", 2}, {"F16", 2}, {"U8", 1}};
  plain_file read;
  std::uint64_t length = 0;
  if (file.size() < sizeof(length)) {
    ADD_FAILURE() << "no length";
    return read;
  }
  std::memcpy(&length, file.data(), sizeof(length));
  EXPECT_EQ(length % 8, 0U) << "the tensors must begin at a multiple of 8 bytes";
  if (length > 100'000'000 || length > file.size() - sizeof(length)) {
    ADD_FAILURE() << "header of " << length << " bytes in a file of " << file.size();
    return read;
  }
  const std::string_view header = std::string_view(file).substr(sizeof(length), length);
  const std::string_view data = std::string_view(file).substr(sizeof(length) + length);
  EXPECT_EQ(header.front(), '{');
  EXPECT_EQ(header.substr(header.find_last_of('}') + 1).find_first_not_of(' '), header.npos) << "padding: blanks only";

  std::uint64_t reached = 0;
  std::uint64_t last_size = 8;
  const boost::json::value parsed = boost::json::parse(header);
  for (const auto& [key, value] : parsed.as_object()) {
    const std::string name(key);
    if (name == "__metadata__") {
      for (const auto& [one, text] : value.as_object()) {
        EXPECT_TRUE(text.is_string()) << one;
        if (text.is_string()) read.metadata[std::string(one)] = std::string(text.as_string());
      }
      continue;
    }
    EXPECT_EQ(value.as_object().size(), 3U) << name;
    plain_tensor tensor{std::string(value.at("dtype").as_string()), {}, {}};
    const std::uint64_t size = sizes.at(tensor.type);
    std::uint64_t bytes = size;
    for (const auto& extent : value.at("shape").as_array()) {
      tensor.shape.push_back(extent.to_number<std::uint64_t>());
      bytes *= tensor.shape.back();
    }
    const auto begin = value.at("data_offsets").at(0).to_number<std::uint64_t>();
    const auto end = value.at("data_offsets").at(1).to_number<std::uint64_t>();
    EXPECT_EQ(begin, reached) << name << ": no holes, in the header's order";
    EXPECT_EQ(end - begin, bytes) << name;
    EXPECT_EQ(begin % size, 0U) << name << ": aligned to its type";
    EXPECT_LE(size, last_size) << name << ": wide types first";
    EXPECT_LE(end, data.size()) << name;
    reached = end;
    last_size = size;
    tensor.bytes = std::string(data.substr(std::min<std::uint64_t>(begin, data.size()), end - begin));
    EXPECT_TRUE(read.tensors.emplace(name, std::move(tensor)).second) << name;
  }
  EXPECT_EQ(reached, data.size()) << "nothing behind the last tensor";
  return read;
}

}  // namespace troupe::model
