// Data files that tests write and open: plain, compressed, and their contents.

#pragma once

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <vector>

#include "model/data.hpp"
#include "model/job.hpp"
#include "tests/model/temporary_file.hpp"

namespace troupe::model {

inline std::string gzip(const std::string& text) {
  z_stream stream{};
  constexpr int gzip_window = 16 + MAX_WBITS;
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, 8, Z_DEFAULT_STRATEGY);
  std::string made(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<unsigned char*>(made.data());
  stream.avail_out = static_cast<uInt>(made.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  made.resize(stream.total_out);
  deflateEnd(&stream);
  return made;
}

/// Compresses with a checksum, like the program `zstd`.
inline std::string zstd(const std::string& text) {
  std::string made(ZSTD_compressBound(text.size()) + 32, '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  const std::size_t size = ZSTD_compress2(context, made.data(), made.size(), text.data(), text.size());
  ZSTD_freeCCtx(context);
  EXPECT_EQ(ZSTD_isError(size), 0U);
  made.resize(size);
  return made;
}

inline result<std::shared_ptr<const dataset>> open_with(const std::vector<setting>& settings) {
  const auto job = parse_job(settings);
  if (!job) return tl::unexpected(job.error());
  return open_dataset(*job);
}

/// The data set of a job that must be valid.
inline std::shared_ptr<const dataset> opened(const std::vector<setting>& settings) {
  auto data = open_with(settings);
  EXPECT_TRUE(data.has_value()) << (data ? "" : data.error().message);
  return data ? *data : nullptr;
}

/// The message of a refusal as bad input; expects a single line.
template <class T>
std::string refusal(const result<T>& what) {
  EXPECT_FALSE(what.has_value());
  if (what) return "";
  EXPECT_EQ(what.error().kind, fault_kind::input);
  EXPECT_EQ(what.error().message.find('\n'), std::string::npos);
  return what.error().message;
}

}  // namespace troupe::model
