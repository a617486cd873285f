//! How shared text and bytes are archived: as plain strings and vectors, without tracking of
//! pointers, since no two fields of a record are meant to stay shared.

use std::ops::Bound;
use std::sync::Arc;

use rkyv::api::high::{HighDeserializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::{self, Fallible, Source};
use rkyv::ser::{Allocator, Writer};
use rkyv::string::{ArchivedString, StringResolver};
use rkyv::util::AlignedVec;
use rkyv::vec::{ArchivedVec, VecResolver};
use rkyv::with::{ArchiveWith, DeserializeWith, SerializeWith};
use rkyv::{Archive, Deserialize, Place, Portable, Serialize, SerializeUnsized};

/// Archives `Arc<str>`, `Arc<[u8]>`, bounds of keys and paths in call graphs by content: `#[rkyv(with = Plain)]`.
pub struct Plain;

impl ArchiveWith<Arc<str>> for Plain {
    type Archived = ArchivedString;
    type Resolver = StringResolver;
    fn resolve_with(field: &Arc<str>, resolver: Self::Resolver, out: Place<Self::Archived>) {
        ArchivedString::resolve_from_str(field, resolver, out);
    }
}

impl<S: Fallible + ?Sized> SerializeWith<Arc<str>, S> for Plain
where
    S::Error: Source,
    str: SerializeUnsized<S>,
{
    fn serialize_with(field: &Arc<str>, serializer: &mut S) -> Result<Self::Resolver, S::Error> {
        ArchivedString::serialize_from_str(field, serializer)
    }
}

impl<D: Fallible + ?Sized> DeserializeWith<ArchivedString, Arc<str>, D> for Plain {
    fn deserialize_with(field: &ArchivedString, _: &mut D) -> Result<Arc<str>, D::Error> {
        Ok(field.as_str().into())
    }
}

impl ArchiveWith<Arc<[u8]>> for Plain {
    type Archived = ArchivedVec<u8>;
    type Resolver = VecResolver;
    fn resolve_with(field: &Arc<[u8]>, resolver: Self::Resolver, out: Place<Self::Archived>) {
        ArchivedVec::resolve_from_slice(field, resolver, out);
    }
}

impl<S: Fallible + Writer + Allocator + ?Sized> SerializeWith<Arc<[u8]>, S> for Plain {
    fn serialize_with(field: &Arc<[u8]>, serializer: &mut S) -> Result<Self::Resolver, S::Error> {
        ArchivedVec::serialize_from_slice(field, serializer)
    }
}

impl<D: Fallible + ?Sized> DeserializeWith<ArchivedVec<u8>, Arc<[u8]>, D> for Plain {
    fn deserialize_with(field: &ArchivedVec<u8>, _: &mut D) -> Result<Arc<[u8]>, D::Error> {
        Ok(field.as_slice().into())
    }
}

/// Archives a value as flags: `#[rkyv(with = AsFlags)]`.
pub struct AsFlags;

/// A value that is archived as flags.
pub trait Flagged: Copy {
    /// An array of them.
    type Flags: Archive<Archived = Self::Flags, Resolver: Default> + Portable;
    /// The flags, in the order in which they are archived.
    fn flags(self) -> Self::Flags;
    /// What has these flags.
    fn of(flags: &Self::Flags) -> Self;
}

impl<T: Flagged> ArchiveWith<T> for AsFlags {
    type Archived = T::Flags;
    type Resolver = <T::Flags as Archive>::Resolver;
    fn resolve_with(field: &T, resolver: Self::Resolver, out: Place<Self::Archived>) {
        field.flags().resolve(resolver, out);
    }
}

impl<T: Flagged, S: Fallible + ?Sized> SerializeWith<T, S> for AsFlags {
    fn serialize_with(_: &T, _: &mut S) -> Result<Self::Resolver, S::Error> {
        Ok(Default::default())
    }
}

impl<T: Flagged, D: Fallible + ?Sized> DeserializeWith<T::Flags, T, D> for AsFlags {
    fn deserialize_with(flags: &T::Flags, _: &mut D) -> Result<T, D::Error> {
        Ok(T::of(flags))
    }
}

/// Reads a value where its bytes are, validating them before they are believed; where archived data may
/// not lie, in a copy of them.
///
/// # Errors
/// They are not such a value.
pub fn read<T>(bytes: &[u8]) -> Result<T, rancor::Error>
where
    T: Archive,
    T::Archived: for<'a> CheckBytes<HighValidator<'a, rancor::Error>> + Deserialize<T, HighDeserializer<rancor::Error>>,
{
    if bytes.as_ptr().cast::<u128>().is_aligned() {
        return rkyv::from_bytes::<T, rancor::Error>(bytes);
    }
    rkyv::from_bytes::<T, rancor::Error>(&aligned(bytes))
}

/// The same bytes where archived data may be read: what comes from a file or a socket may lie anywhere.
pub fn aligned(bytes: &[u8]) -> AlignedVec<16> {
    let mut aligned = AlignedVec::with_capacity(bytes.len());
    aligned.extend_from_slice(bytes);
    aligned
}

type OwnedBound = Bound<String>;

/// Bounds are rare; a copy is no matter.
fn owned(bound: &Bound<Arc<str>>) -> OwnedBound {
    bound.as_ref().map(|key| key.to_string())
}

impl ArchiveWith<Bound<Arc<str>>> for Plain {
    type Archived = <OwnedBound as Archive>::Archived;
    type Resolver = <OwnedBound as Archive>::Resolver;
    fn resolve_with(field: &Bound<Arc<str>>, resolver: Self::Resolver, out: Place<Self::Archived>) {
        owned(field).resolve(resolver, out);
    }
}

impl<S: Fallible + ?Sized> SerializeWith<Bound<Arc<str>>, S> for Plain
where
    OwnedBound: Serialize<S>,
{
    fn serialize_with(field: &Bound<Arc<str>>, serializer: &mut S) -> Result<Self::Resolver, S::Error> {
        owned(field).serialize(serializer)
    }
}

impl<D: Fallible + ?Sized> DeserializeWith<<OwnedBound as Archive>::Archived, Bound<Arc<str>>, D> for Plain
where
    <OwnedBound as Archive>::Archived: Deserialize<OwnedBound, D>,
{
    fn deserialize_with(
        field: &<OwnedBound as Archive>::Archived,
        deserializer: &mut D,
    ) -> Result<Bound<Arc<str>>, D::Error> {
        let bound: OwnedBound = field.deserialize(deserializer)?;
        Ok(bound.map(Arc::from))
    }
}
