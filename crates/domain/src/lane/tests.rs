//! The lane's rules as sentences, and a small world that torments it.

