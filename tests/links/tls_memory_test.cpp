// How much memory a peer without a certificate can make a TLS port allocate.

#include <gtest/gtest.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "cluster/links/tls_opening.hpp"
#include "tests/links/certificates.hpp"
#include "tests/links/raw_socket.hpp"
#include "tests/links/stage.hpp"

namespace troupe::links::tls_memory_test {
namespace {

// What OpenSSL has allocated in counting threads and not freed, and its maximum.
std::atomic<long> bytes_now = 0;
std::atomic<long> bytes_most = 0;
thread_local bool counts_here = false;

struct alignas(std::max_align_t) allocation {
  std::size_t size;
  bool counted;
};

void* counted_malloc(std::size_t size, const char*, int) {
  auto* made = static_cast<allocation*>(std::malloc(sizeof(allocation) + size));
  if (made == nullptr) return nullptr;
  *made = {size, counts_here};
  if (counts_here) {
    bytes_now += static_cast<long>(size);
    bytes_most = std::max(bytes_most.load(), bytes_now.load());
  }
  return made + 1;
}

void counted_free(void* bytes, const char*, int) {
  if (bytes == nullptr) return;
  auto* made = static_cast<allocation*>(bytes) - 1;
  if (made->counted) bytes_now -= static_cast<long>(made->size);
  std::free(made);
}

void* counted_realloc(void* bytes, std::size_t size, const char* file, int line) {
  if (bytes == nullptr) return counted_malloc(size, file, line);
  void* grown = counted_malloc(size, file, line);
  if (grown == nullptr) return nullptr;
  std::memcpy(grown, bytes, std::min(size, (static_cast<allocation*>(bytes) - 1)->size));
  counted_free(bytes, file, line);
  return grown;
}

// OpenSSL accepts other functions only before its first allocation.
bool counting = false;
[[gnu::constructor]] void count_memory() {
  counting = CRYPTO_set_mem_functions(counted_malloc, counted_realloc, counted_free) == 1;
}

class TlsMemoryTest : public LinkStage {
 protected:
  // The limit of what a stranger may add to OpenSSL's use for every connection, some 100 KiB.
  static constexpr long limit = 64 * 1024;

  void SetUp() override {
    ASSERT_TRUE(counting);
    // Excludes what OpenSSL allocates once and keeps.
    meet_stranger_with_certificate_of(10);
    bytes_for_anybody = meet_stranger_with_certificate_of(10);
    ASSERT_GT(bytes_for_anybody, 0);
  }

  /// Starts a new listener, and frees everything of the peers that the last one rejected.
  void begin_anew() {
    rejected.clear();
    listening.reset();
    io.restart();
    while (io.poll() > 0) {
    }
    where = listen(mine);
  }

  /// Returns the most that was allocated until the listener has rejected a peer.
  long bytes_until_rejected() {
    const long before = bytes_now;
    bytes_most = before;
    counts_here = true;
    EXPECT_TRUE(wait([&] { return rejected.size() == 1; }));
    counts_here = false;
    return bytes_most - before;
  }

  long meet_stranger_with_certificate_of(std::size_t size) {
    begin_anew();
    const authority strangers("strangers");
    tls_files files = strangers.issue("stranger");
    files.ca = ours.issue("b").ca;
    const tls_ptr tls = *make_tls(files);
    const tls_files fat = strangers.issue("fat", 3600, size);
    EXPECT_EQ(SSL_CTX_use_certificate_file(tls->settings.get(), fat.certificate.c_str(), SSL_FILETYPE_PEM), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(tls->settings.get(), fat.key.c_str(), SSL_FILETYPE_PEM), 1);
    // In a separate thread, so that its memory is not counted.
    std::thread stranger([&] {
      boost::asio::io_context other;
      connect(other, where, {good_token, tls}, {}, limits, {},
              [](const result<link_ptr>& result) { EXPECT_FALSE(result); });
      other.run();
    });
    const long most = bytes_until_rejected();
    stranger.join();
    return most;
  }

  const authority ours{"ours"};
  const credentials mine{good_token, *make_tls(ours.issue("a"))};
  endpoint where;
  long bytes_for_anybody = 0;
};

TEST_F(TlsMemoryTest, ALongFirstMessageIsRefusedWhenItIsAnnounced) {
  begin_anew();
  raw_socket stranger = raw_socket::to(where);
  // A TLS handshake record with the beginning of a ClientHello of 131000 bytes, then more of it.
  std::vector<std::byte> record(5 + 16384);
  const unsigned char begin[] = {0x16, 3, 1, 0x40, 0, 1, 0x01, 0xff, 0xb8, 3, 3};
  std::memcpy(record.data(), begin, sizeof(begin));
  stranger.say(record);
  EXPECT_LT(bytes_until_rejected(), bytes_for_anybody + limit);
  EXPECT_NE(rejected[0].message.find("announced a TLS message of more than 16384 bytes"), std::string::npos)
      << rejected[0].message;
}

TEST_F(TlsMemoryTest, ACertificateThatIsTooLongIsRefusedWhenItIsAnnounced) {
  EXPECT_LT(meet_stranger_with_certificate_of(15'000), bytes_for_anybody + limit);
  EXPECT_NE(rejected[0].message.find("certificate is not trusted"), std::string::npos) << rejected[0].message;
  EXPECT_LT(meet_stranger_with_certificate_of(90'000), bytes_for_anybody + limit);
  EXPECT_NE(rejected[0].message.find("excessive message size"), std::string::npos) << rejected[0].message;
}

TEST(TlsOpeningTest, MessagesAreJudgedHoweverTheyAreCut) {
  const auto record = [](unsigned char type, const std::vector<unsigned char>& body) {
    std::vector<unsigned char> all = {type, 3, 3, static_cast<unsigned char>(body.size() >> 8),
                                      static_cast<unsigned char>(body.size() & 255)};
    all.insert(all.end(), body.begin(), body.end());
    return all;
  };
  const auto join = [](std::vector<unsigned char> a, const std::vector<unsigned char>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const auto accepted = [](const std::vector<unsigned char>& bytes, std::size_t part) {
    tls_opening opening;
    auto rest = std::as_bytes(std::span(bytes));
    while (!rest.empty()) {
      const auto some = rest.first(std::min(part, rest.size()));
      if (!opening.accepts(some)) return false;
      rest = rest.subspan(some.size());
    }
    return true;
  };
  const auto good = join(record(22, {1, 0, 0, 3, 9, 9, 9, 1, 0}), record(22, {0, 1, 7}));
  const auto full = record(22, {1, 0, 0x40, 0});
  const auto over = record(22, {1, 0, 0x40, 1});
  const auto encrypted = record(23, {1, 255, 255, 255});
  for (std::size_t part : {1, 2, 3, 5, 100}) {
    EXPECT_TRUE(accepted(good, part));
    EXPECT_TRUE(accepted(full, part));
    EXPECT_FALSE(accepted(over, part));
    EXPECT_FALSE(accepted(join(good, over), part));
    EXPECT_FALSE(accepted(join(record(20, {1}), over), part));
    EXPECT_FALSE(accepted(join(record(22, {1, 0}), record(22, {0x40, 1})), part));
    EXPECT_TRUE(accepted(join(encrypted, over), part));
  }
}

}  // namespace
}  // namespace troupe::links::tls_memory_test
