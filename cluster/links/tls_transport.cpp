// TLS over a socket with OpenSSL itself instead of Asio's stream, so that any thread that holds the link's mutex can
// read and write without blocking.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/links/handshake_role.hpp"
#include "cluster/links/tls_context.hpp"
#include "cluster/links/tls_opening.hpp"
#include "cluster/links/transport.hpp"

namespace troupe::links {

namespace {

constexpr std::size_t record_bytes_max = SSL3_RT_MAX_PLAIN_LENGTH;

constexpr const char* no_tls_text = "does not use TLS, this side does: give --insecure to both or to none";
constexpr const char* only_there_text =
    "uses certificates, this side the token alone: give --tls-cert, --tls-key and --tls-ca to both or to none";
constexpr const char* only_here_text =
    "uses the token alone, this side certificates too: give --tls-cert, --tls-key and --tls-ca to both or to none";

/// A BIO over the socket. OpenSSL's own BIO for sockets would raise SIGPIPE.
struct socket_end {
  int socket = -1;
  std::uint64_t bytes_in = 0;
  bool ended = false;
  int error_number = 0;
  tls_opening opening;
  bool announced_too_much = false;
};

socket_end& end_of(BIO* bio) { return *static_cast<socket_end*>(BIO_get_data(bio)); }

int read_socket(BIO* bio, char* to, int size) {
  socket_end& end = end_of(bio);
  BIO_clear_retry_flags(bio);
  for (;;) {
    const ssize_t got = ::recv(end.socket, to, static_cast<std::size_t>(size), MSG_DONTWAIT);
    if (got >= 0) {
      end.bytes_in += static_cast<std::uint64_t>(got);
      end.ended = got == 0;
      const auto bytes = std::as_bytes(std::span(to, static_cast<std::size_t>(got)));
      end.announced_too_much = end.announced_too_much || !end.opening.accepts(bytes);
      return end.announced_too_much ? -1 : static_cast<int>(got);
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
      BIO_set_retry_read(bio);
    else
      end.error_number = errno;
    return -1;
  }
}

int write_socket(BIO* bio, const char* from, int size) {
  socket_end& end = end_of(bio);
  BIO_clear_retry_flags(bio);
  for (;;) {
    const ssize_t sent = ::send(end.socket, from, static_cast<std::size_t>(size), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<int>(sent);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
      BIO_set_retry_write(bio);
    else
      end.error_number = errno;
    return -1;
  }
}

long control_socket(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return end_of(bio).ended ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* socket_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "link");
    BIO_meth_set_read(made, read_socket);
    BIO_meth_set_write(made, write_socket);
    BIO_meth_set_ctrl(made, control_socket);
    return made;
  }();
  return method;
}

std::string fingerprint_of(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  if (certificate == nullptr || X509_digest(certificate, EVP_sha256(), digest.data(), &size) != 1) return {};
  return fmt::format("{:02x}", fmt::join(std::span(digest).first(size), ""));
}

/// Sets the name or address that the certificate must have; removes an address's scope. False: it was not set, so
/// nothing would be checked.
bool expect_name(SSL* ssl, const std::string& host) {
  X509_VERIFY_PARAM* wanted = SSL_get0_param(ssl);
  X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  const bool is_address = X509_VERIFY_PARAM_set1_ip_asc(wanted, host.substr(0, host.find('%')).c_str()) == 1;
  return is_address || (!host.empty() && X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size()) == 1);
}

class tls final : public transport {
 public:
  tls(int socket, const credentials& mine, link_side side)
      : side_(side),
        context_(mine.tls),
        peer_name_(mine.peer_name),
        peer_certificate_(mine.peer_certificate),
        ssl_(SSL_new(context_->settings.get()), SSL_free) {
    end_.socket = socket;
    BIO* bio = BIO_new(socket_method());
    BIO_set_data(bio, &end_);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
    SSL_set_mode(ssl_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_set_options(ssl_.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);  // a link has its own goodbye
    SSL_set_read_ahead(ssl_.get(), 1);                          // one system call a record instead of two
    SSL_set_app_data(ssl_.get(), this);
    side == link_side::acceptor ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
    if (side == link_side::acceptor || !context_->by_certificates) return;
    if (peer_certificate_.empty())
      knows_expected_name_ = expect_name(ssl_.get(), peer_name_);
    else
      SSL_set_verify(ssl_.get(), SSL_get_verify_mode(ssl_.get()), take_that_certificate_only);
  }

  io_outcome open() override {
    if (!knows_expected_name_)
      return refused(fault_kind::input,
                     fmt::format("no certificate can be for \"{}\"", shown(std::as_bytes(std::span(peer_name_)))));
    if (!recognised_) {
      if (auto strange = recognise()) return std::move(*strange);
    }
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    return result == 1 ? look_at_peer() : outcome_of(result);
  }

  io_outcome read(std::span<std::byte> into) override {
    ERR_clear_error();
    std::size_t got = 0;
    const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
    if (result == 1) return {.bytes = got, .why = {}};
    return outcome_of(result);
  }

  io_outcome write(std::span<const iovec> parts) override {
    std::size_t total = 0;
    for (std::size_t offset = 0; !parts.empty();) {
      if (offset == parts.front().iov_len) {
        parts = parts.subspan(1);
        offset = 0;
        continue;
      }
      const auto record = next_record(parts, offset);
      ERR_clear_error();
      std::size_t written = 0;
      const int result = SSL_write_ex(ssl_.get(), record.data(), record.size(), &written);
      if (result != 1) {
        io_outcome outcome = outcome_of(result);
        // OpenSSL has the record ready, and requires the same bytes again.
        unfinished_ = record.size();
        outcome.bytes = total;
        return outcome;
      }
      unfinished_ = 0;
      total += written;
      for (std::size_t left = written; left > 0;) {
        const std::size_t step = std::min(left, parts.front().iov_len - offset);
        offset += step;
        left -= step;
        if (left > 0) {
          parts = parts.subspan(1);
          offset = 0;
        }
      }
    }
    return {.bytes = total, .why = {}};
  }

  const channel& over() const override { return channel_; }
  std::uint64_t bytes_in() const override { return end_.bytes_in; }
  bool one_at_a_time() const override { return true; }
  bool protects_bytes() const override { return true; }

  // Other threads wait for the mutex while this many bytes are encrypted.
  std::size_t write_budget() const override { return std::size_t{256} << 10; }

 private:
  /// Returns the next bytes of `parts`, from `offset` in the first. Small parts are copied together up to a record's
  /// size.
  std::span<const std::byte> next_record(std::span<const iovec> parts, std::size_t offset) {
    const std::size_t size = unfinished_ > 0 ? unfinished_ : record_bytes_max;
    const auto first = std::span(static_cast<const std::byte*>(parts.front().iov_base), parts.front().iov_len);
    if (first.size() - offset >= size || parts.size() == 1)
      return first.subspan(offset, std::min(size, first.size() - offset));
    staged_.resize(record_bytes_max);
    std::size_t filled = 0;
    for (const iovec& part : parts) {
      const std::size_t taken = std::min(size - filled, part.iov_len - offset);
      std::memcpy(staged_.data() + filled, static_cast<const std::byte*>(part.iov_base) + offset, taken);
      filled += taken;
      offset = 0;
      if (filled == size) break;
    }
    return {staged_.data(), filled};
  }

  /// Checks the first bytes before OpenSSL, to recognise peers that speak another protocol. Null: continue.
  std::optional<io_outcome> recognise() {
    std::array<std::byte, prologue_bytes> first;
    const ssize_t got = ::recv(end_.socket, first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
    if (got == 0) return io_outcome{.state = io_state::ended, .why = {}};
    if (got < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return failed_io(errno);
      if (side_ == link_side::connector) return std::nullopt;  // in TLS the connector speaks first
      return io_outcome{.state = io_state::wants_read, .why = {}};
    }
    recognised_ = true;
    const auto seen = std::span<const std::byte>(first).first(static_cast<std::size_t>(got));
    constexpr std::byte alert_record{0x15};
    constexpr std::byte handshake_record{0x16};
    if (seen.front() == alert_record || seen.front() == handshake_record) return std::nullopt;
    constexpr std::size_t word_bytes = 6;                               // the same in any version
    if (check_prologue(seen.first(std::min(seen.size(), word_bytes))))  // nor this protocol
      return refused(fault_kind::no_peer, fmt::format("speaks no TLS; it said \"{}\"", shown(seen)));
    if (side_ == link_side::acceptor) {
      // A plain answer is not possible here; the peer recognises the alert protocol_version as TLS.
      constexpr std::array<unsigned char, 7> alert{0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x46};
      [[maybe_unused]] const ssize_t sent =
          ::send(end_.socket, alert.data(), alert.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    return refused(fault_kind::no_peer, no_tls_text);
  }

  /// Reads the other side's properties after the TLS handshake.
  io_outcome look_at_peer() {
    // RFC 9266, tls-exporter.
    constexpr std::string_view label = "EXPORTER-Channel-Binding";
    auto* binding = reinterpret_cast<unsigned char*>(channel_.binding.data());
    if (SSL_export_keying_material(ssl_.get(), binding, channel_.binding.size(), label.data(), label.size(), nullptr, 0,
                                   0) != 1)
      return refused(fault_kind::no_peer, "the TLS handshake failed: nothing can be exported from it");
    if (!context_->by_certificates)
      return SSL_session_reused(ssl_.get()) == 1 ? io_outcome{} : refused(fault_kind::not_trusted, only_there_text);
    const std::unique_ptr<X509, decltype(&X509_free)> shown_one(SSL_get1_peer_certificate(ssl_.get()), X509_free);
    channel_.peer_certificate = fingerprint_of(shown_one.get());
    return {};
  }

  /// Checks the fingerprint if the other side must have a certain certificate.
  static int take_that_certificate_only(int good, X509_STORE_CTX* store) {
    const auto* ssl = static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    const auto& self = *static_cast<const tls*>(SSL_get_app_data(ssl));
    if (good != 1 || X509_STORE_CTX_get_error_depth(store) > 0) return good;
    if (fingerprint_of(X509_STORE_CTX_get_current_cert(store)) == self.peer_certificate_) return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
  }

  static io_outcome refused(fault_kind code, std::string text) {
    return {.state = io_state::failed, .why = {code, std::move(text)}};
  }

  io_outcome outcome_of(int result) {
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return {.state = io_state::wants_read, .why = {}};
      case SSL_ERROR_WANT_WRITE:
        return {.state = io_state::wants_write, .why = {}};
      case SSL_ERROR_ZERO_RETURN:
        return {.state = io_state::ended, .why = {}};
      case SSL_ERROR_SSL:
        return failed_tls(ERR_peek_error());
      default:
        if (end_.announced_too_much)
          return refused(fault_kind::no_peer,
                         fmt::format("announced a TLS message of more than {} bytes", tls_message_bytes_max));
        return end_.error_number != 0 ? failed_io(end_.error_number) : io_outcome{.state = io_state::ended, .why = {}};
    }
  }

  io_outcome failed_tls(unsigned long error) {
    const int reason = ERR_GET_REASON(error);
    if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) return {.state = io_state::ended, .why = {}};
    if (auto other_way = recognise_other_way(reason)) return std::move(*other_way);
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) return refused(fault_kind::not_trusted, why_not_trusted());
    if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
      return refused(fault_kind::not_trusted, "shows no certificate: give it --tls-cert, --tls-key and --tls-ca");
    if (reason == SSL_R_WRONG_VERSION_NUMBER && end_.bytes_in > 0 && !SSL_is_init_finished(ssl_.get()))
      return refused(fault_kind::no_peer, no_tls_text);
    const char* text = ERR_reason_error_string(error);
    const std::string_view said = text != nullptr ? text : "unknown error";
    if (is_about_certificate(reason)) {
      constexpr std::string_view mark = " alert ";
      const std::size_t at = said.find(mark);
      return refused(fault_kind::not_trusted,
                     fmt::format("does not trust this side's certificate: {}; --tls-cert must be good for its "
                                 "--tls-ca, and have the name or address that it is reached by",
                                 at == std::string_view::npos ? said : said.substr(at + mark.size())));
    }
    if (SSL_is_init_finished(ssl_.get()))
      return refused(fault_kind::lost, fmt::format("its TLS connection failed: {}", said));
    return refused(fault_kind::no_peer, fmt::format("the TLS handshake failed: {}", said));
  }

  /// Explains a failed handshake: one side uses the token and the other one certificates, or their tokens differ. It
  /// recognises the alert of `check_client_hello`.
  std::optional<io_outcome> recognise_other_way(int reason) const {
    if (SSL_is_init_finished(ssl_.get())) return std::nullopt;
    const bool connects = side_ == link_side::connector;
    const bool by_certificates = context_->by_certificates;
    if (reason == (connects ? SSL_R_TLSV1_ALERT_UNKNOWN_PSK_IDENTITY : SSL_R_CALLBACK_FAILED))
      return refused(fault_kind::not_trusted, by_certificates ? only_here_text : only_there_text);
    if (by_certificates) return std::nullopt;
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) return refused(fault_kind::not_trusted, only_there_text);
    if (reason == (connects ? SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER : SSL_R_BINDER_DOES_NOT_VERIFY) ||
        (connects && reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR)) {
      auto why = other_token_fault({});
      return io_outcome{.state = io_state::failed, .why = std::move(why)};
    }
    return std::nullopt;
  }

  std::string why_not_trusted() const {
    switch (const long why = SSL_get_verify_result(ssl_.get())) {
      case X509_V_ERR_HOSTNAME_MISMATCH:
      case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return fmt::format(
            "its certificate is not for {}: its subjectAltName must have that, or --tls-name say what it has",
            shown(std::as_bytes(std::span(peer_name_))));
      case X509_V_ERR_CERT_REJECTED:
        return "its certificate is not the one that it had when it joined";
      default:
        return fmt::format("its certificate is not trusted: {}; it must be good for --tls-ca",
                           X509_verify_cert_error_string(why));
    }
  }

  /// Returns whether the received alert means that the other side refused this side's certificate.
  static bool is_about_certificate(int reason) {
    constexpr std::array reasons = {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, SSL_R_TLSV1_ALERT_UNKNOWN_CA,
                                    SSL_R_SSLV3_ALERT_BAD_CERTIFICATE,       SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
                                    SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,   SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED,
                                    SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN,   SSL_R_TLSV1_ALERT_ACCESS_DENIED};
    return std::find(reasons.begin(), reasons.end(), reason) != reasons.end();
  }

  const link_side side_;
  const tls_ptr context_;
  const std::string peer_name_;
  const std::string peer_certificate_;
  bool knows_expected_name_ = true;
  socket_end end_;
  channel channel_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  std::vector<std::byte> staged_;
  std::size_t unfinished_ = 0;
  bool recognised_ = false;
};

}  // namespace

std::unique_ptr<transport> tls_transport(int socket, const credentials& mine, link_side side) {
  return std::make_unique<tls>(socket, mine, side);
}

}  // namespace troupe::links
