# SPDX-License-Identifier: MPL-2.0
"""A tenant's server, run inside a guest: tenant.py NAME PORT...

On each TCP port it greets with "NAME PEER-ADDRESS PEER-PORT" and then answers each line with "NAME: LINE"; on the
UDP port of the same number it answers a datagram the same way.
"""

import ipaddress
import selectors
import socket
import sys


def plain(address):
    ip = ipaddress.ip_address(address)
    return str(ip.ipv4_mapped or ip) if ip.version == 6 else str(ip)


class Server:
    def __init__(self, name, ports):
        self.name = name.encode()
        self.unfinished = {}  # connection: the line under way
        self.selector = selectors.DefaultSelector()
        for port in ports:
            for kind, ready in ((socket.SOCK_DGRAM, self.datagram), (socket.SOCK_STREAM, self.accept)):
                listener = socket.socket(socket.AF_INET6, kind)
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("::", port))
                if kind == socket.SOCK_STREAM:
                    listener.listen(64)
                self.selector.register(listener, selectors.EVENT_READ, ready)

    def accept(self, listener):
        connection, peer = listener.accept()
        connection.sendall(b"%s %s %d\n" % (self.name, plain(peer[0]).encode(), peer[1]))
        self.unfinished[connection] = b""
        self.selector.register(connection, selectors.EVENT_READ, self.line)

    def line(self, connection):
        try:
            data = connection.recv(65536)
            if data:
                *lines, self.unfinished[connection] = (self.unfinished[connection] + data).split(b"\n")
                for text in lines:
                    connection.sendall(b"%s: %s\n" % (self.name, text))
                return
        except OSError:
            pass
        del self.unfinished[connection]
        self.selector.unregister(connection)
        connection.close()

    def datagram(self, endpoint):
        data, peer = endpoint.recvfrom(65536)
        endpoint.sendto(b"%s: %s" % (self.name, data), peer)

    def serve(self):
        while True:
            for key, _ in self.selector.select():
                key.data(key.fileobj)


if __name__ == "__main__":
    Server(sys.argv[1], [int(port) for port in sys.argv[2:]]).serve()
