#include "page/http_server.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <deque>
#include <list>
#include <thread>

#include "base/exception_text.hpp"
#include "base/socket_address.hpp"
#include "page/access.hpp"

namespace troupe::page {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

class session;

/// State shared by the connections.
struct service {
  http_server::options how;
  access who;
  http_handler handler;
  std::uint16_t port = 0;
  std::size_t connections = 0;
  std::list<session*> strangers{};  ///< sessions without a valid token or cookie so far, oldest first
};

/// Returns whether a browser resolves `target` on this server: `//host` leads elsewhere, and browsers read a backslash
/// as a slash.
bool is_here(std::string_view target) {
  return target.starts_with('/') && !target.starts_with("//") && target.find('\\') == std::string_view::npos;
}

/// The answer to a request for the page without a token.
constexpr std::string_view no_token_page =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Troupe</title>{}<h1>This page needs its "
    "token</h1><p>Open the address as the program has printed it, with <code>?token=...</code>.</p></html>\n";

class session : public std::enable_shared_from_this<session> {
 public:
  session(tcp::socket socket, service& of)
      : stream_(std::move(socket)),
        service_(of),
        buffer_(of.how.header_bytes + 4096),
        place_(of.strangers.insert(of.strangers.end(), this)) {
    ++service_.connections;
  }
  ~session() { leave(); }

  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(service_.how.header_bytes));
    stream_.expires_after(timeout());
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](error_code error, std::size_t) { self->have_header(error); });
  }

  /// Closes this connection to make room for another one.
  void make_room() {
    leave();
    stream_.close();
  }

 private:
  using head_fields = http::request<http::empty_body>;

  bool is_stranger() const { return place_ != service_.strangers.end(); }

  std::chrono::milliseconds timeout() const {
    return is_stranger() ? std::min(service_.how.stranger_timeout, service_.how.timeout) : service_.how.timeout;
  }

  void trust() {
    if (is_stranger()) service_.strangers.erase(place_);
    place_ = service_.strangers.end();
  }

  /// Removes this session from the lists.
  void leave() {
    if (std::exchange(has_left_, true)) return;
    trust();
    --service_.connections;
  }

  void have_header(error_code error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      return refuse(431, "the header is too large");
    // Malformed HTTP gets an answer; a timeout or a closed connection gets none.
    if (error.category() == http::make_error_code(http::error::bad_method).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message)
      return refuse(400, "this is not an HTTP request");
    if (error) return;
    if (!parser_->is_done()) return refuse(413, "requests here have no body");
    const head_fields& head = parser_->get();
    send(answer(head), head.method() == http::verb::head, head.keep_alive());
  }

  http_response answer(const head_fields& head) {
    // HTTP/1.0 may leave the Host field out; DNS rebinding would send a foreign one.
    if (head.count(http::field::host) > 1 || !service_.who.is_for_us(head[http::field::host]))
      return http_response::of(403, "text/plain; charset=utf-8", "this server has another name\n");
    if (head.method() != http::verb::get && head.method() != http::verb::head) {
      http_response refused = http_response::of(405, "text/plain; charset=utf-8", "only GET and HEAD are supported\n");
      refused.fields.emplace_back("Allow", "GET, HEAD");
      return refused;
    }
    const auto request = read_target(head.target());
    if (!request)
      return http_response::of(400, "text/plain; charset=utf-8",
                               "the address must be /PATH?NAME=VALUE, with two hexadecimal digits behind each %\n");
    if (const auto token = request->query.find("token"); token != request->query.end())
      return service_.who.is_right(token->second) ? let_in(head.target(), *request) : turn_away(head);
    if (!service_.who.is_authorized(head[http::field::authorization], head[http::field::cookie], service_.port))
      return turn_away(head);
    trust();
    try {
      return service_.handler(*request);
    } catch (const std::exception& e) {
      return http_response::of(500, "text/plain; charset=utf-8", fmt::format("{}\n", text_of(e)));
    }
  }

  /// Redirects to the address without the token, so that it is in no history, screenshot or Referer.
  http_response let_in(std::string_view target, const http_request& request) {
    trust();
    std::string without = without_parameter(target, "token");
    if (!is_here(without) || !is_here(request.path)) without = "/";
    http_response moved = http_response::of(303, "text/plain; charset=utf-8", "");
    moved.fields.emplace_back("Location", without);
    moved.fields.emplace_back("Set-Cookie", service_.who.cookie(service_.port));
    return moved;
  }

  static http_response turn_away(const head_fields& head) {
    // After a link from another site the browser withholds the cookie until a page of this site makes the request.
    const bool once_more = head["Sec-Fetch-Site"] == "cross-site" && head["Sec-Fetch-Mode"] == "navigate";
    http_response refused = http_response::of(
        401, "text/html; charset=utf-8",
        fmt::format(fmt::runtime(no_token_page), once_more ? "<meta http-equiv=\"refresh\" content=\"0\">" : ""));
    refused.fields.emplace_back("WWW-Authenticate", "Bearer");
    return refused;
  }

  void refuse(unsigned status, std::string_view why) {
    send(http_response::of(status, "text/plain; charset=utf-8", fmt::format("{}\n", why)), false, false);
  }

  void send(const http_response& what, bool head_only, bool keep) {
    body_ = what.body ? what.body : std::make_shared<const std::string>();
    out_.emplace(static_cast<http::status>(what.status), 11);
    out_->set(http::field::server, "troupe");
    out_->set(http::field::content_type, what.content_type);
    out_->set(http::field::cache_control, "no-store");
    out_->set("Content-Security-Policy",
              "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'");
    out_->set("X-Content-Type-Options", "nosniff");
    out_->set("X-Frame-Options", "DENY");
    out_->set("Referrer-Policy", "no-referrer");
    out_->set("Cross-Origin-Resource-Policy", "same-origin");
    // Perfetto's window reports that it is ready to the window that opened it.
    out_->set("Cross-Origin-Opener-Policy", "same-origin-allow-popups");
    for (const auto& [name, value] : what.fields) out_->set(name, value);
    out_->content_length(body_->size());
    out_->keep_alive(keep);
    // An export over a slow line may take long, but has a limit.
    constexpr std::size_t slowest_bytes_per_s = 64 << 10;
    stream_.expires_after(timeout() + std::chrono::seconds(body_->size() / slowest_bytes_per_s));
    auto next = [self = shared_from_this(), keep](error_code error, std::size_t) { self->sent(error, keep); };
    if (head_only) {
      head_.emplace(*out_);
      http::async_write_header(stream_, *head_, std::move(next));
    } else {
      out_->body() = {body_->data(), body_->size()};
      body_sender_.emplace(*out_);
      http::async_write(stream_, *body_sender_, std::move(next));
    }
  }

  void sent(error_code error, bool keep) {
    if (error) return;
    head_.reset();
    body_sender_.reset();
    if (keep) return read();
    stream_.socket().shutdown(tcp::socket::shutdown_send, error);
    stream_.expires_after(std::min<std::chrono::milliseconds>(timeout(), std::chrono::seconds(1)));
    drain();
  }

  /// Reads and discards for a moment: closing with unread bytes would reset the connection and lose the answer.
  void drain() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](error_code error, std::size_t) {
      if (!error) self->drain();
    });
  }

  using response_type = http::response<http::span_body<const char>>;
  using serializer_type = http::response_serializer<http::span_body<const char>>;

  beast::tcp_stream stream_;
  service& service_;
  beast::flat_buffer buffer_;
  std::list<session*>::iterator place_;  ///< position in `strangers`; its end: authorized
  bool has_left_ = false;
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::shared_ptr<const std::string> body_;
  std::optional<response_type> out_;
  std::optional<serializer_type> head_;
  std::optional<serializer_type> body_sender_;
};

}  // namespace

struct http_server::state {
  explicit state(service with) : shared(std::move(with)) {}

  void accept(tcp::acceptor& at) {
    at.async_accept([this, &at](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) return rest(at);  // probably out of descriptors
      const bool is_full = shared.connections >= shared.how.connections;
      // Unauthorized connections must not block those with the token.
      if (!shared.strangers.empty() && (is_full || shared.strangers.size() >= shared.how.strangers))
        shared.strangers.front()->make_room();
      if (shared.connections < shared.how.connections) std::make_shared<session>(std::move(socket), shared)->read();
      accept(at);
    });
  }

  void rest(tcp::acceptor& before) {
    const auto timer = std::make_shared<asio::steady_timer>(context, std::chrono::milliseconds(100));
    timer->async_wait([this, &before, timer](error_code error) {
      if (!error) accept(before);
    });
  }

  service shared;  // outlives the sessions, which `context` holds
  asio::io_context context{1};
  std::deque<tcp::acceptor> acceptors;  ///< one for each address
  std::jthread thread;
};

result<std::unique_ptr<http_server>> http_server::start(const options& how, http_handler handler) {
  const auto addresses = addresses_of(how.host, how.port, address_use::listen);
  if (!addresses) return bad_input("cannot listen on {}: {}", how.host, addresses.error().message);
  TROUPE_TRY(at, listen_at_all(*addresses));
  auto made = std::make_unique<state>(service{how, access(how.token, how.host), std::move(handler)});
  made->shared.port = at.addresses.front().port();
  for (std::size_t i = 0; i < at.sockets.size(); ++i) {
    const auto protocol = at.addresses[i].is_ipv6() ? tcp::v6() : tcp::v4();
    error_code error;
    made->acceptors.emplace_back(made->context);
    made->acceptors.back().assign(protocol, at.sockets[i].release(), error);
    if (error) return bad_input("{}: cannot listen there: {}", to_string(at.addresses[i]), error.message());
    made->accept(made->acceptors.back());
  }
  made->thread = std::jthread([running = made.get()] {
    constexpr int gives_way = 5;  // a lower priority than training
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), gives_way);
    running->context.run();
  });
  return std::unique_ptr<http_server>(new http_server(std::move(made)));
}

http_server::http_server(std::unique_ptr<state> with) : state_(std::move(with)) {}

http_server::~http_server() {
  state_->context.stop();
  state_->thread.join();
}

std::uint16_t http_server::port() const { return state_->shared.port; }

std::string http_server::url() const {
  const std::string& host = state_->shared.how.host;
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return fmt::format(fmt::runtime(is_ipv6 ? "http://[{}]:{}/?token={}" : "http://{}:{}/?token={}"), host, port(),
                     state_->shared.how.token);
}

}  // namespace troupe::page
