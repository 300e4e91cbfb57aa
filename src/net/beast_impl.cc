// The bodies of Asio and Beast, compiled once: BOOST_ASIO_SEPARATE_COMPILATION and
// BOOST_BEAST_SEPARATE_COMPILATION keep them out of http_server.cc.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
