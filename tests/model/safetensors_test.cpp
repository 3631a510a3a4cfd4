#include "model/safetensors.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "tests/model/tensor_file.hpp"

namespace troupe::model::safetensors_test {
namespace {

// The error for a file with these bytes, without its path.
std::string refusal(const std::string& content) {
  const temporary_file file(content);
  const auto opened = safetensors_file::open(file.path());
  EXPECT_FALSE(opened.has_value());
  if (opened) return "";
  EXPECT_EQ(opened.error().kind, fault_kind::input);
  const std::string& message = opened.error().message;
  EXPECT_EQ(message.find(file.path() + ": "), 0U) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message.substr(std::min(message.size(), file.path().size() + 2));
}

tensor_file small_file() {
  tensor_file file;
  file.config = "a \"quoted\" text";
  file.set<float>("floats", {2, 2}, {1.5F, -2, 1e-39F, 4});
  file.set<double>("doubles", {3}, {0.1, 1e300, -7});
  file.set<std::int64_t>("integers", {1, 2}, {-1, std::numeric_limits<std::int64_t>::max()});
  file.set<float>("none", {0, 5}, {});
  file.set<double>("scalar", {}, {2.5});
  file.set_typed<std::uint8_t>("bytes", "U8", {3}, {1, 2, 255});
  return file;
}

TEST(Safetensors, ReadsWhatWasWritten) {
  const temporary_file file(small_file().bytes());
  const auto opened = safetensors_file::open(file.path());
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  EXPECT_EQ(opened->name(), file.path());
  EXPECT_EQ(opened->header().tensors.size(), 6U);
  EXPECT_EQ(opened->header().metadata.at("config"), "a \"quoted\" text");
  const auto* floats = opened->find("floats");
  ASSERT_NE(floats, nullptr);
  EXPECT_EQ(floats->type, dtype::f32);
  EXPECT_EQ(floats->shape, (std::vector<std::uint64_t>{2, 2}));
  EXPECT_EQ(floats->count(), 4U);
  EXPECT_EQ(opened->find("other"), nullptr);

  EXPECT_EQ(opened->read_floats("floats").value(), (std::vector<float>{1.5F, -2, 1e-39F, 4}));
  EXPECT_EQ(opened->read_doubles("floats").value(), (std::vector<double>{1.5, -2, 1e-39F, 4}));
  EXPECT_EQ(opened->read_doubles("doubles").value(), (std::vector<double>{0.1, 1e300, -7}));
  EXPECT_EQ(opened->read_floats("doubles").value()[0], 0.1F);
  EXPECT_TRUE(std::isinf(opened->read_floats("doubles").value()[1]));
  EXPECT_EQ(opened->read_integers("integers").value(),
            (std::vector<std::int64_t>{-1, std::numeric_limits<std::int64_t>::max()}));
  EXPECT_TRUE(opened->read_floats("none").value().empty());
  EXPECT_EQ(opened->read_doubles("scalar").value(), std::vector<double>{2.5});
  EXPECT_EQ(opened->read_bytes("bytes").value(), (std::vector<std::byte>{std::byte{1}, std::byte{2}, std::byte{255}}));
}

TEST(Safetensors, AskingForAnotherTypeOrNameIsAFault) {
  const temporary_file file(small_file().bytes());
  const auto opened = safetensors_file::open(file.path());
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  EXPECT_EQ(opened->read_floats("integers").error().message,
            file.path() + ": tensor integers of type I64: must be F32 or F64");
  EXPECT_EQ(opened->read_integers("floats").error().message, file.path() + ": tensor floats of type F32: must be I64");
  EXPECT_EQ(opened->read_bytes("nothing").error().message, file.path() + ": tensor nothing is missing");
}

TEST(Safetensors, AFileThatMovesKeepsWorking) {
  const temporary_file file(small_file().bytes());
  auto first = safetensors_file::open(file.path());
  ASSERT_TRUE(first.has_value());
  safetensors_file second(std::move(*first));
  EXPECT_EQ(second.read_doubles("scalar").value(), std::vector<double>{2.5});
  auto third = safetensors_file::open(file.path());
  ASSERT_TRUE(third.has_value());
  *third = std::move(second);
  EXPECT_EQ(third->read_doubles("scalar").value(), std::vector<double>{2.5});
}

TEST(Safetensors, AFileCutWhileItIsOpenIsAFault) {
  const temporary_file file(small_file().bytes());
  const auto opened = safetensors_file::open(file.path());
  ASSERT_TRUE(opened.has_value());
  file.write("cut");
  const auto read = opened->read_doubles("doubles");
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().message.find("while it is being read"), std::string::npos);
}

// -- other files -----------------------------------------------------------------------------------------------------

TEST(Safetensors, ForeignThingsAreRefused) {
  EXPECT_EQ(refusal(""), "0 bytes: a safetensors file has at least 8");
  EXPECT_EQ(refusal("1234567"), "7 bytes: a safetensors file has at least 8");
  EXPECT_EQ(refusal(std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16)),
            "header of 727905341920923785 bytes: must be at most 8 in this file; is it a safetensors file?");
  EXPECT_NE(refusal(file_of("hello")).find("header, byte 0: "), std::string::npos);
  EXPECT_EQ(safetensors_file::open("/does/not/exist").error().message,
            "/does/not/exist: No such file or directory; a safetensors file is expected");
  EXPECT_EQ(safetensors_file::open("/tmp").error().message, "/tmp: a directory: must be a safetensors file");
  EXPECT_EQ(safetensors_file::open("/dev/null").error().message,
            "/dev/null: not a regular file: must be a safetensors file");
  EXPECT_EQ(safetensors_file::open("").error().message,
            "'': No such file or directory; a safetensors file is expected");
}

TEST(Safetensors, ANamedPipeIsRefusedWithoutWaiting) {
  const temporary_file file("");
  const std::string pipe = file.path() + ".pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(safetensors_file::open(pipe).error().message, pipe + ": not a regular file: must be a safetensors file");
  ::unlink(pipe.c_str());
}

TEST(Safetensors, AHugeHeaderIsRefusedBeforeItIsRead) {
  // 99 MB are within the limit, but not within the file.
  EXPECT_EQ(refusal(std::string("\xc0\x9e\xe6\x05\0\0\0\0{}", 10)),
            "header of 99000000 bytes: must be at most 2 in this file; is it a safetensors file?");
  EXPECT_EQ(refusal(std::string(8, '\xff')),
            "header of 18446744073709551615 bytes: must be at most 0 in this file; is it a safetensors file?");
  // A sparse file that is long enough, with a header above 100 MB.
  const temporary_file file(std::string("\x00\xe1\xf5\x06\0\0\0\0{}", 10));
  ASSERT_EQ(::truncate(file.path().c_str(), 200'000'000), 0);
  EXPECT_EQ(
      safetensors_file::open(file.path()).error().message,
      file.path() + ": header of 116777216 bytes: must be at most 100000000 in this file; is it a safetensors file?");
}

// -- unsound headers -------------------------------------------------------------------------------------------------

// A header with one tensor `t`, and 8 bytes of data.
std::string refused_tensor(const std::string& body) { return refusal(file_of("{\"t\":" + body + "}", "12345678")); }

TEST(Safetensors, TheSmallestSoundHeadersAreRead) {
  for (const auto& content :
       {file_of("{}"), file_of("{}   "), file_of(" {\"__metadata__\":{}}"), file_of(R"({"__metadata__":null})"),
        file_of(R"({"t":{"data_offsets":[0,8],"shape":[2],"dtype":"F32"}})", "12345678")}) {
    const temporary_file file(content);
    const auto opened = safetensors_file::open(file.path());
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
  }
}

TEST(Safetensors, SizesThatDoNotFitAreRefused) {
  EXPECT_EQ(refused_tensor(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
            "t: 8 bytes for F32 [3]: must be 12");
  EXPECT_EQ(refused_tensor(R"({"dtype":"F64","shape":[],"data_offsets":[0,4]})"), "t: 4 bytes for F64 []: must be 8");
  EXPECT_EQ(refused_tensor(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})"),
            "t: ends at byte 16: must be at most 8, the end of the file");
  EXPECT_EQ(refused_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
            "t: data_offsets [8, 0]: must be begin and end, begin not above end");
  EXPECT_EQ(refused_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4,8]})"),
            "t: data_offsets [0, 4, 8]: must be begin and end, begin not above end");
  // 2^62 x 4 bytes wrap around to 0, as does 2^32 x 2^32.
  EXPECT_EQ(refused_tensor(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]})"),
            "t: 0 bytes for F32 [4611686018427387904]: must be less than 2^64");
  EXPECT_EQ(refused_tensor(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]})"),
            "t: 0 bytes for U8 [4294967296, 4294967296]: must be less than 2^64");
  EXPECT_EQ(refused_tensor(R"({"dtype":"U8","shape":[8],"data_offsets":[18446744073709551608,18446744073709551616]})"),
            "t, key data_offsets: must be whole numbers of at most 64 bits");
  EXPECT_EQ(refused_tensor(R"({"dtype":"U8","shape":[7],"data_offsets":[18446744073709551608,18446744073709551615]})"),
            "t: ends at byte 18446744073709551615: must be at most 8, the end of the file");
}

TEST(Safetensors, OverlapsAndHolesAreRefused) {
  const auto two = [](const char* first, const char* second) {
    return refusal(file_of(fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":{}}},)"
                                       R"("b":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})",
                                       first, second),
                           "12345678"));
  };
  EXPECT_EQ(two("[0,4]", "[3,7]"), "b: begins at byte 3: must be 4, where the tensor before it ends");
  EXPECT_EQ(two("[0,4]", "[0,4]"), "b: begins at byte 0: must be 4, where the tensor before it ends");
  EXPECT_EQ(two("[4,8]", "[1,5]"), "b: begins at byte 1: must be 0, where the tensor before it ends");
  EXPECT_EQ(refused_tensor(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})"),
            "4 bytes behind the last tensor: must be none");
  EXPECT_EQ(refusal(file_of("{}", "x")), "1 bytes behind the last tensor: must be none");
}

TEST(Safetensors, UnknownAndMissingAndRepeatedPartsAreRefused) {
  const std::string sound = R"({"dtype":"U8","shape":[8],"data_offsets":[0,8]})";
  const std::string keys = "must be dtype (text), shape or data_offsets (arrays)";
  EXPECT_EQ(refused_tensor(R"({"shape":[8],"data_offsets":[0,8]})"), "t: dtype, shape or data_offsets is missing");
  EXPECT_EQ(refused_tensor("{}"), "t: dtype, shape or data_offsets is missing");
  EXPECT_EQ(refused_tensor(R"({"dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8]})"),
            "t, key dtype: given twice");
  EXPECT_EQ(refused_tensor(R"({"dtype":"U8","shape":[8],"shape":[8],"data_offsets":[0,8]})"),
            "t, key shape: given twice");
  EXPECT_EQ(refused_tensor(R"({"dtype":"U8","shape":[8],"data_offsets":[0,8],"data_offsets":[0,8]})"),
            "t, key data_offsets: given twice");
  EXPECT_EQ(refusal(file_of("{\"t\":" + sound + ",\"t\":" + sound + "}", "12345678")), "t: given twice");
  EXPECT_EQ(refused_tensor(R"({"dtype":8,"shape":[8],"data_offsets":[0,8]})"), "t, key dtype: " + keys);
  EXPECT_EQ(refused_tensor(R"({"dtype":"U8","extra":"x","shape":[8],"data_offsets":[0,8]})"), "t, key extra: " + keys);
  EXPECT_EQ(refused_tensor(R"({"dtype":"U8","shape":8,"data_offsets":[0,8]})"), "t, key shape: " + keys);
  EXPECT_EQ(refused_tensor(R"({"dtype":"U8","shape":null,"data_offsets":[0,8]})"), "t, key shape: " + keys);
  for (const char* shape : {"[8.0]", "[-8]", "[\"8\"]", "[true]", "[99999999999999999999]"}) {
    EXPECT_EQ(refused_tensor(fmt::format(R"({{"dtype":"U8","shape":{},"data_offsets":[0,8]}})", shape)),
              "t, key shape: must be whole numbers of at most 64 bits")
        << shape;
  }
  EXPECT_EQ(refused_tensor(R"({"dtype":"U8","shape":[[8]],"data_offsets":[0,8]})"),
            "header, byte 28: too deep: must be one JSON object");
  for (const char* body : {"7", "[]", "\"x\"", "null", "true"}) {
    EXPECT_EQ(refused_tensor(body), "t: must be an object with dtype, shape and data_offsets") << body;
  }
}

// Such files are published. An unknown tensor must not keep others from being read.
TEST(Safetensors, ATensorOfAnotherTypeIsRefusedOnlyWhenItIsWanted) {
  for (const char* type : {"F8_E8M0", "F4", "F6_E2M3", "I4", "C64", "BOOL", "F8_E5M2", ""}) {
    tensor_file file;
    file.set<float>("a", {2}, {1, 2});
    // The known types of one byte have as many bytes as elements; of the others nothing is known.
    file.set_typed<std::uint8_t>("b", type, {3}, {7, 8, 9});
    file.set<double>("c", {1}, {3});
    const temporary_file made(file.bytes());
    const auto opened = safetensors_file::open(made.path());
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    EXPECT_EQ(opened->read_floats("a").value(), (std::vector<float>{1, 2}));
    EXPECT_EQ(opened->read_doubles("c").value(), std::vector<double>{3});
    EXPECT_EQ(opened->find("b")->count(), 3U);
    EXPECT_EQ(opened->read_bytes("b").value().size(), 3U);
    EXPECT_EQ(opened->read_doubles("b").error().message,
              fmt::format("{}: tensor b of type {}: must be F32 or F64", made.path(), printable(type)));
    EXPECT_EQ(opened->read_integers("b").error().message,
              fmt::format("{}: tensor b of type {}: must be I64", made.path(), printable(type)));
  }
  // The offsets of a tensor of unknown type are checked like other tensors' offsets.
  EXPECT_EQ(refused_tensor(R"({"dtype":"F4","shape":[4],"data_offsets":[0,4]})"),
            "4 bytes behind the last tensor: must be none");
  EXPECT_EQ(refused_tensor(R"({"dtype":"F4","shape":[32],"data_offsets":[0,16]})"),
            "t: ends at byte 16: must be at most 8, the end of the file");
  EXPECT_EQ(refused_tensor(R"({"dtype":"F4","dtype":"F4","shape":[16],"data_offsets":[0,8]})"),
            "t, key dtype: given twice");
}

TEST(Safetensors, MetadataIsTextToText) {
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":{"a":1}})")), "__metadata__, key a: must be text");
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":{"a":{}}})")), "__metadata__, key a: must be text");
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":{"a":["x"]}})")), "__metadata__, key a: must be text");
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":{"a":"x","a":"y"}})")), "__metadata__, key a: given twice");
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":{},"__metadata__":{}})")), "__metadata__: given twice");
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":null,"__metadata__":{"a":"x"}})")), "__metadata__: given twice");
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":7})")), "__metadata__: must be an object of texts, or null");
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":[]})")), "__metadata__: must be an object of texts, or null");
}

TEST(Safetensors, JsonThatIsNotOneObjectIsRefused) {
  for (const char* text : {"", " ", "[]", "7", "\"x\"", "{", "{]", "{}{}", "{} x", "{\"a\"}", "{\"a\":}", "{,}", "nul",
                           "{\"a\xff\":{}}", "{\"__metadata__\":{\"a\":\"\x01\"}}", "// {}\n{}"}) {
    EXPECT_FALSE(refusal(file_of(text)).empty()) << text;
  }
  EXPECT_FALSE(refusal(file_of(std::string(10'000'000, '['))).empty());
  EXPECT_FALSE(refusal(file_of("{\"a\":" + std::string(10'000'000, '{'))).empty());
}

TEST(Safetensors, OddNamesStayOnOneShortLine) {
  EXPECT_EQ(refusal(file_of(R"({"a\nb":7})")), "a\\x0ab: must be an object with dtype, shape and data_offsets");
  EXPECT_LT(refusal(file_of("{\"" + std::string(100'000, 'n') + "\":7}")).size(), 300U);
}

// -- many small damages ----------------------------------------------------------------------------------------------

// Opening and reading everything must give values or a fault; sanitizers check the rest.
void open_and_read_all(const temporary_file& file) {
  const auto opened = safetensors_file::open(file.path());
  if (!opened) {
    EXPECT_EQ(opened.error().message.find(file.path() + ": "), 0U) << opened.error().message;
    EXPECT_EQ(opened.error().message.find('\n'), std::string::npos) << opened.error().message;
    return;
  }
  for (const auto& [name, entry] : opened->header().tensors) {
    const auto bytes = opened->read_bytes(name);
    ASSERT_TRUE(bytes.has_value());
    if (entry.type) {
      EXPECT_EQ(bytes->size(), entry.count() * size_of(*entry.type));
    }
    (void)opened->read_doubles(name);
    (void)opened->read_integers(name);
  }
}

TEST(Safetensors, TruncationAtEveryLengthIsRefused) {
  const std::string sound = small_file().bytes();
  for (std::size_t length = 0; length < sound.size(); ++length) {
    EXPECT_FALSE(refusal(sound.substr(0, length)).empty()) << length;
  }
}

TEST(Safetensors, EveryFlippedByteIsSurvived) {
  const std::string sound = small_file().bytes();
  const temporary_file file(sound);
  for (std::size_t place = 0; place < sound.size(); ++place) {
    for (const int flip : {0x01, 0x02, 0x04, 0x10, 0x20, 0x80, 0xff}) {
      file.overwrite(place, static_cast<char>(sound[place] ^ flip));
      open_and_read_all(file);
    }
    file.overwrite(place, sound[place]);
  }
}

TEST(Safetensors, EveryByteLeftOutOrDoubledIsSurvived) {
  const std::string sound = small_file().bytes();
  const temporary_file file("");
  for (std::size_t place = 0; place < sound.size(); ++place) {
    file.write(sound.substr(0, place) + sound.substr(place + 1));
    open_and_read_all(file);
    file.write(sound.substr(0, place) + sound.substr(place, 1) + sound.substr(place));
    open_and_read_all(file);
  }
}

}  // namespace
}  // namespace troupe::model::safetensors_test
