//! NVMe over TCP with the Key Value command set: target and initiator.
//!
//! The crate knows the protocol and nothing of any store. Its core does no input or output: bytes go
//! in, actions come out. Layers, each of which knows only those before it: [`wire`], the bytes of
//! the specifications; [`auth`], in-band authentication; [`initiator`], the host's side; [`target`],
//! the side that serves namespaces; [`server`], that side on sockets.
//!
//! Sources: NVM Express Base Specification 2.1, NVMe over TCP Transport Specification 1.1, NVMe Key
//! Value Command Set Specification 1.1, and the headers of the Linux kernel, SPDK and xNVMe.

#![forbid(unsafe_code)]

pub mod auth;
#[doc(hidden)]
pub mod fuzz;
pub mod initiator;
pub mod server;
pub mod target;
pub mod wire;
