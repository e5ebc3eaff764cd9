"""Certificates: of receivers, of clients, and bad ones."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime.datetime.now(datetime.timezone.utc)
DAY = datetime.timedelta(days=1)


def named(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def pem_of_key(key, form=serialization.PrivateFormat.PKCS8):
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


class Authority:
    def __init__(self, name):
        self.key, self.name = ec.generate_private_key(ec.SECP256R1()), named(name)
        self.certificate = self.made(self.name, self.key.public_key(), authority=True)

    def made(self, subject, public, authority=False, since=NOW - DAY, until=NOW + 60 * DAY, usage=None):
        made = (x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(public)
                .serial_number(x509.random_serial_number()).not_valid_before(since).not_valid_after(until)
                .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True))
        if usage:
            made = made.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if usage == ExtendedKeyUsageOID.SERVER_AUTH:
            here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
            made = made.add_extension(here, critical=False)
        return made.sign(self.key, hashes.SHA256())

    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def client(self, name, kind="ec", **more):
        """A chain and its key."""
        key = {"ec": lambda: ec.generate_private_key(ec.SECP256R1()), "rsa": lambda: rsa.generate_private_key(65537, 2048)}[kind]()
        made = self.made(named(name), key.public_key(), usage=ExtendedKeyUsageOID.CLIENT_AUTH, **more)
        form = serialization.PrivateFormat.TraditionalOpenSSL
        return made.public_bytes(serialization.Encoding.PEM).decode() + self.pem(), pem_of_key(key, form)

    def server(self):
        key = ec.generate_private_key(ec.SECP256R1())
        made = self.made(named("receiver"), key.public_key(), usage=ExtendedKeyUsageOID.SERVER_AUTH)
        return made.public_bytes(serialization.Encoding.PEM).decode() + pem_of_key(key)
