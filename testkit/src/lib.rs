//! Packet builders, captures and fixtures for the tests. Never a dependency of the product.
