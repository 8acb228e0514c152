use leasehold::KeyPart;

#[derive(KeyPart)]
struct Two(u64, u64);

#[derive(KeyPart)]
struct Unit;

#[derive(KeyPart)]
struct Named {
    id: u64,
    line: u64,
}

#[derive(KeyPart)]
enum Either {
    A(u64),
}

#[derive(KeyPart)]
struct Amount(f64);

#[derive(KeyPart)]
struct Id<T>(T);

fn is_part(_: impl KeyPart) {}

fn main() {
    is_part(Id(1));
    is_part(Id(1.0));
}
