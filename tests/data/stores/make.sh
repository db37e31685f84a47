#!/bin/sh
# Makes the stores of this folder again, with openssl 3 and keytool of JDK 17; no password or key in them is secret.
set -eu
cd "$(dirname "$0")"
rm -f ./*.p12 ./*.jks
work=$(mktemp -d)
for name in first second; do
  openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -days 36500 -subj "/CN=$name CA" \
    -keyout "$work/$name-ca.key" -out "$work/$name-ca.pem"
  openssl req -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj "/CN=$name" \
    -keyout "$work/$name.key" -out "$work/$name.csr"
  openssl x509 -req -days 36500 -in "$work/$name.csr" -CA "$work/$name-ca.pem" -CAkey "$work/$name-ca.key" \
    -out "$work/$name.crt"
  openssl pkcs12 -export -name "$name" -in "$work/$name.crt" -inkey "$work/$name.key" -certfile "$work/$name-ca.pem" \
    -passout pass:store-secret -out "$work/$name.p12"
done
keystore() { keytool -importkeystore -noprompt -srckeystore "$work/$1.p12" -srcstorepass store-secret \
  -deststorepass store-secret -destkeystore "$2" -deststoretype "$3" -destkeypass "$4"; }

cp "$work/first.p12" key-openssl.p12
keystore first key.p12 PKCS12 store-secret
keystore first keys.jks JKS key-secret
keystore second keys.jks JKS key-secret
keystore first key-and-trust.p12 PKCS12 store-secret
for name in first-ca second-ca; do
  for type in p12 jks; do
    keytool -importcert -noprompt -alias "$name" -file "$work/$name.pem" -storepass store-secret \
      -keystore "trust.$type" -storetype "$(echo "$type" | sed s/p12/pkcs12/)"
  done
done
keytool -importcert -noprompt -alias second -file "$work/second-ca.pem" -storepass store-secret \
  -keystore key-and-trust.p12
keytool -importcert -noprompt -alias second -file "$work/second-ca.pem" -storepass store-secret -keystore trust-open.p12 \
  -J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE -J-Dkeystore.pkcs12.macAlgorithm=NONE
openssl pkcs12 -export -nokeys -in "$work/first-ca.pem" -passout pass:store-secret -out trust-openssl.p12
rm -r "$work"
